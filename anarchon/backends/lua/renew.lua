-- renew: extends the leases that are still the asker's; never creates a record.
-- KEYS: as in common.lua.
-- ARGV[1]: owner, lease, and the words of present.lua
-- ARGV[2] and on: job, slot, manual, attempt

local head = given(1)
local owner, lease = head[1], head[2]
note(head, 3)

local answers = {}
for place = 2, #ARGV do
  local item = given(place)
  local run = find(item[1], item[2], item[3])
  if holds(run, item[4], owner) then
    renew(run, lease)
    answers[place - 1] = {run.cancel ~= 0 and 'cancelled' or 'ok'}
  elseif run and run.status == 'success' and run.owner == owner and run.attempt == item[4] then
    answers[place - 1] = {'done'}
  else
    answers[place - 1] = {'lost'}
  end
end
return reply(answers)
