-- What every operation shares; put in front of each, behind the numbers of the rules.
--
-- KEYS, the same for every operation and all with the hash tag of the namespace:
--   1 meta         hash: format; paused, until when every job is
--   2 jobs         hash of job: [fence, floor, paused, records, skips]
--   3 runs         hash of run id: [state, attempt, first line, owner, lease's end, lease,
--                  heartbeat, beat, fence, deaths, budget, catch-up, cancel, status, detail,
--                  decided by, since]
--   4 lines        hash of run id, NUL, attempt: [status, detail, reason, instance, started,
--                  finished, duration, error, traceback]
--   5 checkpoints  hash of run id: the text
--   6 open         the ids of runs of slots that are running or waiting
--   7 kept         the ids of all others, manual runs among them, without the
--   8 skips        ids of skipped slots
--   9 order        every run as slot, NUL, job, NUL, manual: the order of history
--  10 orders       a letter and the id of runs that the fleet is asked for: t, triggered and
--                  waiting; b, backfilled and waiting; r, backfilled and running
--  11 instances    hash of token: [seen, expected, state, about]
--  12 alerts       hash of job: [slot, token], the newest one that was told of as unfinished
--
-- ARGV[1] is the head of the call, each that follows an item; both are JSON arrays, and each
-- script says what is in them. A run id is job, NUL, slot, NUL, manual. 6 to 10 are sorted
-- sets without scores, so they are in the order of the bytes. A run that the fleet is asked
-- for is in 10 alone until somebody has it: its attempt is 0, and it has no line of history.
--
-- The answer: {store time, answers, open runs, lines closed in passing, others, next end}.
-- Times are whole milliseconds. A number is never written by `tostring`, nor by cjson, which
-- both keep 14 digits; false stands for what is missing, since nil would end an answer.

local META, JOBS, RUNS, LINES, CHECKPOINTS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local OPEN, KEPT, SKIPS, ORDER, ORDERS = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local INSTANCES, ALERTS = KEYS[11], KEYS[12]
local call = redis.call

if redis.replicate_commands then
  redis.replicate_commands() -- before Redis 7 a script that asks for the time may else not write
end

local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local format = tonumber(call('HGET', META, 'format') or nil)
if format and format > FORMAT then
  return redis.error_reply('NEWERFORMAT ' .. format)
end

-- Words and numbers ------------------------------------------------------------------------

local STATES = {running = true, waiting = true, closed = true}
local STATUSES = {
  running = true, success = true, failed = true, interrupted = true, skipped = true,
  missed = true, lost = true,
}

local function digits(number)
  return string.format('%.0f', number)
end

local function whole(value, least, most)
  if type(value) == 'number' and value >= least and value <= most and value % 1 == 0 then
    return value
  end
end

local function text(value)
  if type(value) == 'string' then return value end
end

-- A text as JSON, or null.
local function quoted(value)
  return cjson.encode(value)
end

-- A number as JSON, or null.
local function number(value)
  return value and digits(value) or 'null'
end

-- What was stored as an array, or an empty one: anybody may have written there.
local function stored(raw)
  local fine, values = pcall(cjson.decode, raw or '[]')
  return fine and type(values) == 'table' and values or {}
end

-- An argument of the call.
local function given(place)
  local values = cjson.decode(ARGV[place])
  for index, value in pairs(values) do
    if value == cjson.null then values[index] = nil end
  end
  return values
end

-- Ids: a name may contain anything, so what separates them is taken out of it, in a way that
-- keeps the order of names.
local ESCAPES = {['\0'] = '\1\1', ['\1'] = '\1\2'}
local NAMES = {['\1\1'] = '\0', ['\1\2'] = '\1'}
local YEAR_1 = 62135596800000 -- so that every slot has 15 digits and no sign

local function escaped(name)
  return (name:gsub('[%z\1]', ESCAPES))
end

local function named(part)
  return (part:gsub('\1[\1\2]', NAMES))
end

local function stamp(slot)
  return string.format('%015.0f', slot + YEAR_1)
end

local function id_of(job, slot, manual)
  return escaped(job) .. '\0' .. stamp(slot) .. '\0' .. escaped(manual)
end

local function place_of(job, slot, manual)
  return stamp(slot) .. '\0' .. escaped(job) .. '\0' .. escaped(manual)
end

local function parts_of(id)
  return id:match('^(%Z*)%z(%Z*)%z(%Z*)$')
end

-- Runs ---------------------------------------------------------------------------------------

local RUN = {
  'state', 'attempt', 'first', 'owner', 'ends', 'lease', 'heartbeat', 'beat', 'fence', 'deaths',
  'budget', 'catch_up', 'cancel', 'status', 'detail', 'by', 'since',
}
local NUMBERS = {
  'attempt', 'first', 'ends', 'lease', 'heartbeat', 'beat', 'fence', 'deaths', 'budget',
  'catch_up', 'cancel', 'since',
}
local FORM =
  '["%s",%.0f,%.0f,%s,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%s,%s,%s,%.0f]'
local MOST = 2 * FOREVER -- the sum of a time and the longest lease
local MOST_LINES = 100000 -- more than this was written by somebody else, and would be counted

local function is_backfill(manual)
  return manual:sub(1, #BACKFILLED) == BACKFILLED
end

local function is_ordered(manual)
  return manual:sub(1, #TRIGGERED) == TRIGGERED or is_backfill(manual)
end

local function run_of(raw, manual)
  local values, run = stored(raw), {}
  for place = 1, #RUN do run[RUN[place]] = values[place] end
  for place = 1, #NUMBERS do
    if not whole(run[NUMBERS[place]], -MOST, MOST) then return end
  end
  if run.status == cjson.null then run.status = nil end
  if run.detail == cjson.null then run.detail = nil end
  local known = STATES[run.state] and (run.status == nil or STATUSES[run.status])
  local texts = text(run.owner) and text(run.by) and (run.detail == nil or text(run.detail))
  local counted = run.first > 0 and whole(run.attempt - run.first, 0, MOST_LINES - 1)
  if run.attempt == 0 then -- nobody had it
    counted = run.first == 1 and run.state ~= 'running' and is_ordered(manual)
  end
  local timed = run.lease >= 0 and run.heartbeat >= 0
  return known and texts and counted and timed and run or nil
end

local function raw_of(run)
  return FORM:format(
    run.state, run.attempt, run.first, quoted(run.owner), run.ends, run.lease, run.heartbeat,
    run.beat, run.fence, run.deaths, run.budget, run.catch_up, run.cancel, quoted(run.status),
    quoted(run.detail), quoted(run.by), run.since
  )
end

-- What can't be read is decided, by nobody.
local function unreadable()
  return {
    state = 'closed', attempt = 1, first = 1, owner = '', ends = 0, lease = 0, heartbeat = 0,
    beat = 0, fence = 0, deaths = 0, budget = 0, catch_up = 0, cancel = 0, status = 'lost',
    detail = 'unreadable record', by = '', since = 0, broken = true,
  }
end

-- Where history finds a run; nowhere before it has a line.
local function class_of(run)
  if run.attempt == 0 and run.state == 'waiting' then return nil end
  if run.status == 'skipped' then return SKIPS end
  if run.state ~= 'closed' and run.manual == '' then return OPEN end
  return KEPT
end

-- With which letter a run stands among those that the fleet is still asked for, if it does:
-- it waits, or holds others up.
local function letter_of(run)
  if run.state == 'closed' or not is_ordered(run.manual) then return nil end
  if not is_backfill(run.manual) then return run.state == 'waiting' and 't' or nil end
  return run.state == 'waiting' and 'b' or 'r'
end

local runs = {} -- by id, false for one without a record; so each is read once

local function find(job, slot, manual)
  local id = id_of(job, slot, manual)
  local run = runs[id]
  if run == nil then
    local raw = call('HGET', RUNS, id)
    run = raw and (run_of(raw, manual) or unreadable())
    if run then
      run.id, run.job, run.slot, run.manual = id, job, slot, manual
      run.class, run.letter = class_of(run), letter_of(run)
    end
    runs[id] = run
  end
  return run or nil
end

local function find_by_id(id)
  local job, slot, manual = parts_of(id)
  slot = whole(tonumber(slot), 0, MOST)
  return slot and find(named(job), slot - YEAR_1, named(manual))
end

-- Write a run, and where it stands.
local function put(run)
  local class, letter = class_of(run), letter_of(run)
  call('HSET', RUNS, run.id, raw_of(run))
  if run.letter ~= letter then
    if run.letter then call('ZREM', ORDERS, run.letter .. run.id) end
    if letter then call('ZADD', ORDERS, 0, letter .. run.id) end
    run.letter = letter
  end
  if run.class == class then return end
  if run.class then
    call('ZREM', run.class, run.id)
  else
    call('ZADD', ORDER, 0, place_of(run.job, run.slot, run.manual))
  end
  call('ZADD', class, 0, run.id)
  run.class = class
end

-- Pass the ids of a part to a function, in order, until it returns true; whether it did.
-- No id is gone past twice, as those before an offset are.
local function any_of(part, least, most, is_it)
  local count = 20
  repeat
    local ids = call('ZRANGEBYLEX', part, least, most, 'LIMIT', 0, count)
    for _, id in ipairs(ids) do
      if is_it(id) then return true end
    end
    least = ids[count] and '(' .. ids[count]
  until not least
  return false
end

-- The least and the greatest id of a job, for ZRANGEBYLEX.
local function range_of(job)
  local name = escaped(job)
  return '[' .. name .. '\0', '(' .. name .. '\1'
end

-- The open runs of a job's slots, oldest slot first, without those named: all, or so many.
local function open_runs(job, without, limit)
  local found = {}
  local least, most = range_of(job)
  any_of(OPEN, least, most, function(id)
    local run = not without[id] and find_by_id(id)
    if run and run.state ~= 'closed' then found[#found + 1] = run end
    return #found == limit
  end)
  return found
end

-- Jobs ---------------------------------------------------------------------------------------

local jobs = {}

local function job_of(name)
  local job = jobs[name]
  if not job then
    local values = stored(call('HGET', JOBS, name))
    job = {
      name = name,
      fence = whole(values[1], 0, FENCE_LIMIT - 1) or 0,
      floor = whole(values[2], NO_FLOOR, LAST_MS) or NO_FLOOR,
      paused = whole(values[3], 0, FOREVER) or 0,
      records = whole(values[4], 0, FOREVER) or 0,
      skips = whole(values[5], 0, FOREVER) or 0,
    }
    jobs[name] = job
  end
  return job
end

local function put_format()
  if not format then
    format = FORMAT -- everything else is gone as well: somebody flushed the server
    call('HSET', META, 'format', digits(FORMAT))
  end
end

local function put_job(job)
  local form = '[%.0f,%.0f,%.0f,%.0f,%.0f]'
  local raw = form:format(job.fence, job.floor, job.paused, job.records, job.skips)
  call('HSET', JOBS, job.name, raw)
  put_format()
end

-- The words of the rules -----------------------------------------------------------------------

local function left(run)
  return run.ends - now
end

local function alive(run)
  return run.state == 'running' and left(run) > 0
end

local function too_old(run, catch_up)
  return now - run.ends > math.max(catch_up, 3 * run.lease)
end

local function continuable(run, catch_up)
  if run.cancel ~= 0 or too_old(run, catch_up) then return false end
  return run.state == 'waiting' or run.deaths + 1 < run.budget
end

local function holds(run, attempt, owner)
  return run and run.state == 'running' and run.owner == owner and run.attempt == attempt
end

local function renew(run, lease)
  run.ends, run.lease, run.beat = now + lease, lease, run.beat + 1
  put(run)
end

local function died(deaths)
  return 'runner died ' .. digits(deaths) .. (deaths == 1 and ' time' or ' times')
end

-- What the fleet is asked for ------------------------------------------------------------------

-- Pass the runs of a job that stand there with a letter to a function, oldest first, up to an
-- id or all of them, until it returns true; whether it did.
local function any_order(letter, job, before, is_it)
  local least, most = range_of(job)
  least, most = least:sub(2), before or most:sub(2)
  return any_of(ORDERS, '[' .. letter .. least, '(' .. letter .. most, function(member)
    local run = find_by_id(member:sub(2))
    return run and run.letter == letter and is_it(run)
  end)
end

-- Whether the fleet is asked for anything: mostly not, and then no job costs more.
local asked_for
local function is_asked()
  asked_for = asked_for or call('ZRANGEBYLEX', ORDERS, '-', '+', 'LIMIT', 0, 1)
  return #asked_for > 0
end

-- The ordered runs of a job that may be claimed, oldest first, without the one asked about: as
-- many as are named of those triggered, and of those backfilled one, if none is running.
local function takeable(job, asked)
  if not is_asked() then return {} end
  local found = {}
  any_order('t', job, nil, function(run)
    if run.id ~= asked then found[#found + 1] = run end
    return #found == NAMED_OPEN
  end)
  if any_order('r', job, nil, alive) then return found end
  any_order('b', job, nil, function(run)
    local place = 1 -- a backfilled slot comes before what was triggered in that millisecond
    while found[place] and found[place].slot < run.slot do place = place + 1 end
    if run.id ~= asked then table.insert(found, place, run) end
    return true
  end)
  found[NAMED_OPEN + 1] = nil
  return found
end

-- Answers --------------------------------------------------------------------------------------

local function is_mine(run, owner)
  return run.state == 'running' and run.owner == owner
end

local function open_words(run, ...)
  local words = {...}
  local ahead = run.state == 'running' and left(run) or 0
  for _, word in ipairs({
    run.state, run.attempt, run.beat, ahead, run.lease, run.heartbeat, run.owner,
  }) do
    words[#words + 1] = word
  end
  return words
end

-- An open run as a reply names it beside its answers.
local function told(run)
  return open_words(run, run.job, run.slot, run.manual)
end

local function reply(answers, open, closed, others, next_end)
  return {now, answers, open or {}, closed or {}, others or 0, next_end or false}
end
