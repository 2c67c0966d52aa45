-- What the operations share that read or write history; put behind `common.lua`.

-- History --------------------------------------------------------------------------------------

local LINE = {
  'status', 'detail', 'reason', 'instance', 'started', 'finished', 'duration', 'error',
  'traceback',
}
local IS_TIME = {started = true, finished = true, duration = true}
local REASONS = {scheduled = true, manual = true, ['catch-up'] = true, takeover = true}

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
  local parts = {}
  for place, name in ipairs(LINE) do
    parts[place] = IS_TIME[name] and number(line[name]) or quoted(line[name])
  end
  call('HSET', LINES, line_field(id, attempt), '[' .. table.concat(parts, ',') .. ']')
end

-- Change how an attempt ended, if its line is there; what the ending doesn't say stays.
local function end_line(id, attempt, ending)
  local line = find_line(id, attempt)
  if not line then return end
  line.detail = nil
  for name, value in pairs(ending) do line[name] = value end
  put_line(id, attempt, line)
end

-- How many lines a run has; those of a broken one are counted, for nothing says it.
local function lines_of(run)
  if not run.broken then return run.attempt - run.first + 1 end
  local count = 0
  while call('HEXISTS', LINES, line_field(run.id, count + 1)) == 1 do count = count + 1 end
  return count
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

-- A run without a record; `fields` is what differs from one that nobody ever ran.
local function new_run(fields)
  local run = unreadable()
  run.broken, run.status, run.detail, run.since = nil, nil, nil, now
  for name, value in pairs(fields) do run[name] = value end
  run.id = id_of(run.job, run.slot, run.manual)
  runs[run.id] = run
  return run
end

-- Add a run whose first line of history begins.
local function insert(fields, line)
  local run = new_run(fields)
  run.first = run.attempt
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
  if run.manual == '' or run.state == 'waiting' or alive(run) then return false end
  return too_old(run, MANUAL_TOO_OLD)
end

-- The runs of a part of history to remove, and how many lines are left without them.
local function worn_runs(job, class, count, kept)
  local gone, examined = {}, 0
  local least, most = range_of(job.name)
  any_of(class, least, most, function(id)
    local run = find_by_id(id)
    if run and may_trim(run) then
      local lines = lines_of(run)
      local is_worn = count > kept or now - run.since > KEPT_MS
      if count - lines < KEPT_ALWAYS or #gone == TRIM_AT_ONCE or not is_worn then return true end
      gone[#gone + 1] = run
      count = count - lines
    end
    examined = examined + 1
    return examined == EXAMINED
  end)
  return gone, count
end

local function remove(run)
  call('HDEL', RUNS, run.id)
  call('HDEL', CHECKPOINTS, run.id)
  if run.letter then call('ZREM', ORDERS, run.letter .. run.id) end
  if run.class then
    call('ZREM', run.class, run.id)
    call('ZREM', ORDER, place_of(run.job, run.slot, run.manual))
  end
  runs[run.id] = false
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

-- The answer for a run that is decided; whoever decided it is given the record.
local function closed_words(run, owner)
  local line = run.by == owner and public(run)
  return {'closed', run.status or 'lost', run.detail or false, run.by, line}
end

-- The answer for a run whose record is gone: decided, nobody knows how.
local function trimmed()
  return {'closed', 'skipped', 'trimmed', '', false}
end
