-- What every operation shares; put in front of each of them, after the numbers of the rules.
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
--
-- ARGV[1] is the head of the call, each that follows an item; both are JSON arrays, and each
-- script says what is in them. A run id is job, NUL, slot, NUL, manual. 6 to 9 are sorted
-- sets without scores, so they are in the order of the bytes.
--
-- The answer: {store time, answers, open runs, lines closed in passing, others, next end}.
-- Times are whole milliseconds. A number is never written by `tostring`, nor by cjson, which
-- both keep 14 digits; false stands for what is missing, since nil would end an answer.

local META, JOBS, RUNS, LINES, CHECKPOINTS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local OPEN, KEPT, SKIPS, ORDER = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
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

local function set_of(words)
  local set = {}
  for word in words:gmatch('%S+') do set[word] = true end
  return set
end

local STATES = set_of('running waiting closed')
local STATUSES = set_of('running success failed interrupted skipped missed lost')
local REASONS = set_of('scheduled manual catch-up takeover')

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

-- An array as JSON, of `count` values; what is nil is missing.
local function written(values, count)
  local parts = {}
  for place = 1, count do
    local value = values[place]
    if value == nil then
      parts[place] = 'null'
    elseif type(value) == 'number' then
      parts[place] = digits(value)
    else
      parts[place] = cjson.encode(value)
    end
  end
  return '[' .. table.concat(parts, ',') .. ']'
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
local IS_TEXT, MAY_MISS = set_of('state owner status detail by'), set_of('status detail')
local MOST = 2 * FOREVER -- the sum of a time and the longest lease

local function run_of(raw)
  local values, run = stored(raw), {}
  for place, name in ipairs(RUN) do
    local value = values[place]
    if value == cjson.null then value = nil end
    if IS_TEXT[name] then
      run[name] = text(value)
    else
      run[name] = whole(value, -MOST, MOST)
    end
    if run[name] == nil and not (MAY_MISS[name] and value == nil) then return end
  end
  local known = STATES[run.state] and (run.status == nil or STATUSES[run.status])
  local counted = run.attempt > 0 and run.lease >= 0 and run.heartbeat >= 0
  if known and counted and run.first > 0 and run.first <= run.attempt then return run end
end

-- What can't be read is decided, by nobody.
local function unreadable()
  return {
    state = 'closed', attempt = 1, first = 1, owner = '', ends = 0, lease = 0, heartbeat = 0,
    beat = 0, fence = 0, deaths = 0, budget = 0, catch_up = 0, cancel = 0, status = 'lost',
    detail = 'unreadable record', by = '', since = 0, broken = true,
  }
end

local function class_of(run)
  if run.status == 'skipped' then return SKIPS end
  if run.state ~= 'closed' and run.manual == '' then return OPEN end
  return KEPT
end

local runs = {} -- by id, false for one without a record; so each is read once

local function find(job, slot, manual)
  local id = id_of(job, slot, manual)
  local run = runs[id]
  if run == nil then
    local raw = call('HGET', RUNS, id)
    run = raw and (run_of(raw) or unreadable())
    if run then
      run.id, run.job, run.slot, run.manual = id, job, slot, manual
      run.class = class_of(run)
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
  local values, class = {}, class_of(run)
  for place, name in ipairs(RUN) do values[place] = run[name] end
  call('HSET', RUNS, run.id, written(values, #RUN))
  if run.class == class then return end
  if run.class then
    call('ZREM', run.class, run.id)
  else
    call('ZADD', ORDER, 0, place_of(run.job, run.slot, run.manual))
  end
  call('ZADD', class, 0, run.id)
  run.class = class
end

-- The least and the greatest id of a job, for ZRANGEBYLEX.
local function range_of(job)
  local name = escaped(job)
  return '[' .. name .. '\0', '(' .. name .. '\1'
end

-- The open runs of a job's slots, oldest slot first, without the one named.
local function open_runs(job, id)
  local found = {}
  local least, most = range_of(job)
  for _, one in ipairs(call('ZRANGEBYLEX', OPEN, least, most)) do
    local run = one ~= id and find_by_id(one)
    if run and run.state ~= 'closed' then found[#found + 1] = run end
  end
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

local function put_job(job)
  local values = {job.fence, job.floor, job.paused, job.records, job.skips}
  call('HSET', JOBS, job.name, written(values, 5))
  if not format then
    format = FORMAT -- everything else is gone as well: somebody flushed the server
    call('HSET', META, 'format', digits(FORMAT))
  end
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

-- History --------------------------------------------------------------------------------------

local LINE = {
  'status', 'detail', 'reason', 'instance', 'started', 'finished', 'duration', 'error',
  'traceback',
}
local IS_TIME = set_of('started finished duration')

local function line_field(id, attempt)
  return id .. '\0' .. digits(attempt)
end

-- A line without what can't be shown; nil when nothing can.
local function line_of(raw)
  local values, line = stored(raw), {}
  for place, name in ipairs(LINE) do
    if IS_TIME[name] then
      line[name] = whole(values[place], FIRST_MS, LAST_MS)
    else
      line[name] = text(values[place])
    end
  end
  if STATUSES[line.status] and REASONS[line.reason] then return line end
end

local function find_line(id, attempt)
  return line_of(call('HGET', LINES, line_field(id, attempt)))
end

local function put_line(id, attempt, line)
  local values = {}
  for place, name in ipairs(LINE) do values[place] = line[name] end
  call('HSET', LINES, line_field(id, attempt), written(values, #LINE))
end

-- Change how an attempt ended, if its line is there; what the ending doesn't say stays.
local function end_line(id, attempt, ending)
  local line = find_line(id, attempt)
  if not line then return end
  line.detail = nil
  for name, value in pairs(ending) do line[name] = value end
  put_line(id, attempt, line)
end

local function line_words(run, attempt, line)
  local words = {run.job, run.slot, run.manual, attempt}
  for place, name in ipairs(LINE) do words[4 + place] = line[name] or false end
  return words
end

-- The record of a closed run, also when its line of history is gone.
local function public(run)
  local line = find_line(run.id, run.attempt)
  line = line or {status = run.status or 'lost', detail = run.detail, reason = 'scheduled'}
  return line_words(run, run.attempt, line)
end

-- What becomes of a run ------------------------------------------------------------------------

local worn = {} -- parts of history that may have grown too long: {job, of skips?}

local function wear(run)
  local skips = run.status == 'skipped'
  for _, one in ipairs(worn) do
    if one[1] == run.job and one[2] == skips then return end
  end
  worn[#worn + 1] = {run.job, skips}
end

-- Write a run whose next line of history begins: count the line, and keep the fence.
local function open_line(run, line)
  local job = job_of(run.job)
  put(run)
  put_line(run.id, run.attempt, line)
  if run.status == 'skipped' then
    job.skips = job.skips + 1
  else
    job.records = job.records + 1
  end
  if run.fence < FENCE_LIMIT then job.fence = math.max(job.fence, run.fence) end
  put_job(job)
  if run.state == 'closed' then wear(run) end
end

-- Add a run; `fields` is what differs from one that nobody ever ran.
local function insert(fields, line)
  local run = unreadable()
  run.broken, run.status, run.detail, run.since = nil, nil, nil, now
  for name, value in pairs(fields) do run[name] = value end
  run.first = run.attempt
  run.id = id_of(run.job, run.slot, run.manual)
  runs[run.id] = run
  open_line(run, line)
  return run
end

-- Record a slot that nobody will run.
local function close_new(job, slot, owner, instance, status, detail)
  return insert(
    {job = job, slot = slot, manual = '', status = status, detail = detail, by = owner},
    {status = status, detail = detail, reason = 'scheduled', instance = instance, finished = now}
  )
end

-- Close an open run in the asker's name.
local function close(run, owner, ending)
  run.state, run.status, run.detail = 'closed', ending.status, ending.detail
  run.by, run.since = owner, now
  put(run)
  end_line(run.id, run.attempt, ending)
  call('HDEL', CHECKPOINTS, run.id)
  wear(run)
end

-- Results --------------------------------------------------------------------------------------

local RESULT = {
  'job', 'slot', 'manual', 'attempt', 'status', 'reason', 'started', 'duration', 'detail',
  'error', 'traceback', 'fence', 'counted',
}

local function result_of(place)
  local values, result = given(place), {}
  for index, name in ipairs(RESULT) do result[name] = values[index] end
  return result
end

-- How a result ends its line; the end is as far from the start as was measured.
local function ending_of(result)
  local ending = {
    status = result.status, detail = result.detail, error = result.error,
    traceback = result.traceback, finished = now,
  }
  if result.started > 0 then
    ending.started, ending.duration = result.started, result.duration
    ending.finished = result.started + result.duration
  end
  return ending
end

-- Whether this attempt was the asker's, and closed by the asker.
local function closed_by(run, attempt, owner)
  return run.state == 'closed' and run.owner == owner and run.by == owner and run.attempt == attempt
end

-- Record an attempt that the store doesn't know: a manual one, or one that it lost.
local function record(result, owner, instance, state, lease)
  local fields = {
    job = result.job, slot = result.slot, manual = result.manual, state = state,
    attempt = result.attempt, owner = owner, ends = now + lease, lease = lease,
    heartbeat = math.floor(lease / 3), fence = result.fence,
  }
  local line = {status = 'running', detail = result.detail, started = now}
  if state == 'closed' then
    line = ending_of(result)
    fields.status, fields.detail, fields.by = result.status, result.detail, owner
  elseif result.started > 0 then
    line.started = result.started
  end
  line.reason, line.instance = result.reason, instance
  return insert(fields, line)
end

-- Trimming -------------------------------------------------------------------------------------

local MANUAL_TOO_OLD = 3600000 -- a manual run has no catch-up of its own: the default one
local EXAMINED = 1000 -- at most, so that every call stays short

local function may_trim(run)
  if run.slot > now then return false end
  if run.state == 'closed' then return true end
  return run.manual ~= '' and not alive(run) and too_old(run, MANUAL_TOO_OLD)
end

-- How many lines a run has; those of a broken one are counted, for nothing says it.
local function lines_of(run)
  if not run.broken then return run.attempt - run.first + 1 end
  local count = 0
  while call('HEXISTS', LINES, line_field(run.id, count + 1)) == 1 do count = count + 1 end
  return count
end

-- The runs of a part of history to remove, and how many lines are left without them.
local function worn_runs(job, class, count, kept)
  local gone, examined = {}, 0
  local least, most = range_of(job.name)
  repeat
    local ids = call('ZRANGEBYLEX', class, least, most, 'LIMIT', examined, 20)
    for _, id in ipairs(ids) do
      local run = find_by_id(id)
      if run and may_trim(run) then
        local lines = lines_of(run)
        local is_worn = count > kept or now - run.since > KEPT_MS
        if count - lines < KEPT_ALWAYS or #gone == TRIM_AT_ONCE or not is_worn then
          return gone, count
        end
        gone[#gone + 1] = run
        count = count - lines
      end
    end
    examined = examined + #ids
  until #ids < 20 or examined >= EXAMINED
  return gone, count
end

local function remove(run)
  call('HDEL', RUNS, run.id)
  call('HDEL', CHECKPOINTS, run.id)
  call('ZREM', run.class, run.id)
  call('ZREM', ORDER, place_of(run.job, run.slot, run.manual))
  for attempt = run.first, run.first + lines_of(run) - 1 do
    call('HDEL', LINES, line_field(run.id, attempt))
  end
end

-- Remove what history need not keep: whole runs, oldest first. It comes last, for the answers
-- may be about what is removed. The floor rises with every slot, so that it can't be claimed
-- again; a manual run leaves no mark there, its slot is only when it was asked for.
local function trim()
  for _, part in ipairs(worn) do
    local job, skips = job_of(part[1]), part[2]
    local name = skips and 'skips' or 'records'
    local kept = skips and KEPT_SKIPS or KEPT_RECORDS
    local gone, count = worn_runs(job, skips and SKIPS or KEPT, job[name], kept)
    for _, run in ipairs(gone) do
      remove(run)
      if run.manual == '' then job.floor = math.max(job.floor, run.slot) end
    end
    if #gone > 0 then
      job[name] = count
      put_job(job)
    end
  end
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

-- The answer for a run that is decided; whoever decided it is given the record.
local function closed_words(run, owner)
  local line = run.by == owner and public(run)
  return {'closed', run.status or 'lost', run.detail or false, run.by, line}
end

-- The answer for a run whose record is gone: decided, nobody knows how.
local function trimmed()
  return {'closed', 'skipped', 'trimmed', '', false}
end

local function reply(answers, open, closed, others, next_end)
  return {now, answers, open or {}, closed or {}, others or 0, next_end or false}
end
