-- pause: stops starts of a job, or of every job; a duration of 0 ends that.
-- KEYS: as in common.lua.
-- ARGV[1]: job or null, duration or null

local head = given(1)
local name, duration = head[1], head[2]
local till = FOREVER
if duration == 0 then
  till = 0
elseif duration then
  till = math.min(FOREVER, now + duration)
end
if name then
  local job = job_of(name)
  job.paused = till
  put_job(job)
else
  call('HSET', META, 'paused', digits(till))
end
return reply({})
