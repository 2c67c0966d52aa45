-- cancel: closes a waiting run, flags a running one.
-- KEYS: as in common.lua.
-- ARGV[1]: nothing
-- ARGV[2]: job, slot, manual

local item = given(2)
local run = find(item[1], item[2], item[3])
if not run or run.state == 'closed' then return reply({{'no'}}) end
if run.state == 'waiting' then
  close(run, '', {status = 'interrupted', detail = 'cancelled'})
  trim()
else
  run.cancel = 1
  put(run)
end
return reply({{'yes'}})
