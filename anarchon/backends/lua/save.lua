-- save: keeps a checkpoint, if the attempt is still the asker's.
-- KEYS: as in common.lua.
-- ARGV[1]: owner, value
-- ARGV[2]: job, slot, manual, attempt

local head, item = given(1), given(2)
local run = find(item[1], item[2], item[3])
if not holds(run, item[4], head[1]) then return reply({{'no'}}) end
call('HSET', CHECKPOINTS, run.id, head[2])
return reply({{'yes'}})
