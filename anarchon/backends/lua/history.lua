-- history: attempts of a job or of all, as they read now.
-- KEYS: as in common.lua; nothing is written.
-- ARGV[1]: limit, job or null, status or null, and the position before or null: slot, job,
--   manual, attempt
--
-- Of one job up to `limit` lines of each part of its history, for the asker to sort; of all
-- jobs the newest ones, sorted.

local head = given(1)
local limit, name, status = head[1], head[2], head[3]
local slot, job, manual, attempt = head[4], head[5], head[6], head[7]

local answers = {}
local known -- the run of the position
if slot then known = id_of(name or job, slot, manual) end

local function reads_lost(run, number, line)
  if line.status ~= 'running' then return false end
  if run.state ~= 'running' or run.attempt ~= number then return true end
  return not alive(run) and not continuable(run, run.catch_up)
end

-- Add the lines of a run, and return how many there are of this part by now.
local function add(run, count)
  local newest = run.first + lines_of(run) - 1
  if run.id == known then newest = math.min(newest, attempt - 1) end
  for number = newest, run.first, -1 do
    local line = count < limit and find_line(run.id, number)
    if line and reads_lost(run, number, line) then
      line.status, line.detail = 'lost', 'runner died'
    end
    if line and (not status or line.status == status) then
      answers[#answers + 1] = line_words(run, number, line)
      count = count + 1
    end
  end
  return count
end

local function gather(part, most, least, run_at)
  local count, passed = 0, 0
  repeat
    local ids = call('ZREVRANGEBYLEX', part, most, least, 'LIMIT', passed, 50)
    for _, id in ipairs(ids) do
      local run = count < limit and run_at(id)
      if run then count = add(run, count) end
    end
    passed = passed + #ids
  until #ids < 50 or count >= limit
end

if name then
  local least, most = range_of(name)
  if slot then most = '[' .. known end
  for _, part in ipairs({OPEN, KEPT, SKIPS}) do
    gather(part, most, least, find_by_id)
  end
else
  local most = slot and '[' .. place_of(job, slot, manual) or '+'
  gather(ORDER, most, '-', function(id)
    local when, whose, token = parts_of(id)
    return when and find_by_id(whose .. '\0' .. when .. '\0' .. token)
  end)
end
return reply(answers)
