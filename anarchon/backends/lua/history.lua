-- history: attempts of a job or of all, newest first, as they read now.
-- KEYS: as in common.lua; nothing is written.
-- ARGV[1]: limit, job or null, status or null, the position before or null: slot, job, manual,
--   attempt; and instead of a position's run, the id where the page before ended
--
-- A script reads its share and no more, so the others never wait for long; the page ends with
-- it, wherever that is. Where it ended is said in place of open runs; nothing there is the end.

local head = given(1)
local limit, name, status = head[1], head[2], head[3]
local slot, job, manual, attempt, ended = head[4], head[5], head[6], head[7], head[8]

local SHARE = 500 -- runs and lines that are read
local CHUNK = 50 -- ids

-- An id as text that survives the way there and back whatever is in it.
local function hex(id)
  return (id:gsub('.', function(byte) return ('%02x'):format(byte:byte()) end))
end

local function from_hex(digits)
  return (digits:gsub('..', function(pair) return string.char(tonumber(pair, 16)) end))
end

local known -- the id of the position's run
if ended then
  known = from_hex(ended)
elseif slot then
  known = (name and id_of or place_of)(job, slot, manual)
end

-- Parts of history --------------------------------------------------------------------------

local parts = {}

local function add_part(key, least, most)
  parts[#parts + 1] = {key = key, least = least, most = known and '[' .. known or most, ids = {}}
end

if name then
  local least, most = range_of(name)
  for _, key in ipairs({OPEN, KEPT, SKIPS}) do add_part(key, least, most) end
else
  add_part(ORDER, '-', '+')
end

-- The newest id of a part that was not taken yet.
local function newest_of(part)
  if #part.ids == 0 and part.most then
    local ids = call('ZREVRANGEBYLEX', part.key, part.most, part.least, 'LIMIT', 0, CHUNK)
    part.most = ids[CHUNK] and '(' .. ids[CHUNK]
    for place = #ids, 1, -1 do part.ids[#ids + 1 - place] = ids[place] end
  end
  return part.ids[#part.ids]
end

-- Whether an id comes before another one of its job; Lua compares texts as the locale does.
local begins = name and #escaped(name) + 2 or 1

local function is_before(one, other)
  for place = begins, math.min(#one, #other) do
    local byte, against = one:byte(place), other:byte(place)
    if byte ~= against then return byte < against end
  end
  return #one < #other
end

local function take()
  local newest, whose
  for _, part in ipairs(parts) do
    local id = newest_of(part)
    if id and (not newest or is_before(newest, id)) then newest, whose = id, part end
  end
  if whose then table.remove(whose.ids) end
  return newest
end

-- Lines -----------------------------------------------------------------------------------------

local function run_at(id)
  if name then return find_by_id(id) end
  local when, whose, token = parts_of(id)
  return when and find_by_id(whose .. '\0' .. when .. '\0' .. token)
end

local function reads_lost(run, number, line)
  if line.status ~= 'running' then return false end
  if run.state ~= 'running' or run.attempt ~= number then return true end
  return not alive(run) and not continuable(run, run.catch_up)
end

local answers, examined = {}, 0

local function is_full()
  return #answers >= limit or examined >= SHARE
end

-- Add the lines of a run, up to this one; return the one before which the page is full.
local function add(run, newest)
  for number = newest, run.first, -1 do
    if is_full() then return number + 1 end
    examined = examined + 1
    local line = find_line(run.id, number)
    if line and reads_lost(run, number, line) then
      line.status, line.detail = 'lost', 'runner died'
    end
    if line and (not status or line.status == status) then
      answers[#answers + 1] = line_words(run, number, line)
    end
  end
end

local id = take()
while id do
  if is_full() then return reply(answers, {{hex(id), FOREVER}}) end
  examined = examined + 1
  local run = run_at(id)
  if run then
    local newest = run.first + lines_of(run) - 1
    if id == known then newest = math.min(newest, attempt - 1) end
    local full = add(run, newest)
    if full then return reply(answers, {{hex(id), full}}) end
  end
  id = take()
end
return reply(answers)
