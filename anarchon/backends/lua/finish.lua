-- finish: closes attempts with their results, and trims history in passing.
-- KEYS: as in common.lua.
-- ARGV[1]: owner, instance
-- ARGV[2] and on, a result: job, slot, manual, attempt, status, reason, started, duration,
--   detail or null, error or null, traceback or null, fence, counted

local head = given(1)
local owner, instance = head[1], head[2]

local function finish(result)
  local run = find(result.job, result.slot, result.manual)
  if not run then
    if result.manual == '' and result.slot <= job_of(result.job).floor then return {'lost'} end
    -- A result is a fact, and a closed record can start nothing.
    record(result, owner, instance, 'closed', 0)
    return {'recorded', result.status, result.detail or false}
  end
  if holds(run, result.attempt, owner) then
    close(run, owner, ending_of(result))
    return {'recorded', result.status, result.detail or false}
  end
  if closed_by(run, result.attempt, owner) then
    -- Written again as it is: else `WAIT` on a new connection would have nothing to wait for.
    put(run)
    return {'recorded', run.status or result.status, run.detail or false}
  end
  return {'lost'}
end

local answers = {}
for place = 2, #ARGV do
  answers[place - 1] = finish(result_of(place))
end
trim()
return reply(answers)
