-- record_manual: inserts manual runs as running; a repeat by the owner changes nothing.
-- KEYS: as in common.lua.
-- ARGV[1]: owner, instance, lease
-- ARGV[2] and on, a result: as for finish

local head = given(1)
local owner, instance, lease = head[1], head[2], head[3]

local answers = {}
for place = 2, #ARGV do
  local result = result_of(place)
  local run = find(result.job, result.slot, result.manual)
  if not run then
    record(result, owner, instance, 'running', lease)
    answers[place - 1] = {'recorded', 'running', result.detail or false}
  elseif run.owner == owner and run.attempt == result.attempt then
    answers[place - 1] = {'recorded', run.status or 'running', run.detail or false}
  else
    answers[place - 1] = {'lost'}
  end
end
return reply(answers)
