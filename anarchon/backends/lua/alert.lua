-- alert: decides who tells that nobody has finished these slots.
-- KEYS: as in common.lua.
-- ARGV[1]: owner
-- ARGV[2] and on: job, slot

local owner = given(1)[1]

-- Whether a run ended in a way that is told of otherwise, or need not be.
local function is_finished(run)
  if not run or run.state ~= 'closed' then return false end
  local is_blocked = run.status == 'skipped' and run.detail == 'overlap'
  return run.status ~= 'missed' and run.status ~= 'lost' and not is_blocked
end

-- Who told of a slot has told of all older ones of the job.
local function tells(job, slot)
  if is_finished(find(job, slot, '')) then return false end
  local values = stored(call('HGET', ALERTS, job))
  local newest, token = whole(values[1], FIRST_MS, LAST_MS), text(values[2])
  if newest and token and newest >= slot then return newest == slot and token == owner end
  call('HSET', ALERTS, job, ('[%.0f,%s]'):format(slot, quoted(owner)))
  put_format()
  return true
end

local answers = {}
for place = 2, #ARGV do
  local item = given(place)
  answers[place - 1] = {tells(item[1], item[2]) and 'yes' or 'no'}
end
return reply(answers)
