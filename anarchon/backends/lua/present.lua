-- present: keeps what an instance says of itself or forgets it, and forgets who is long gone.
-- KEYS: as in common.lua.
-- ARGV[1]: owner, expected or null, state, about or null; null expected: forget this one
--
-- The same words, without the owner, end the head of a claim, a renewal or a look for all that
-- is unfinished, which keep them in passing and remove nothing.

local head = given(1)
local owner, expected = head[1], head[2]

-- Until when an instance was expected. Of what another program wrote nobody knows, so it is
-- forgotten; what we wrote isn't read as a whole, for it may be long, and there are many.
local function expected_of(raw)
  return whole(tonumber(raw:match('^%[%-?%d+,(%-?%d+),') or nil), -MOST, MOST) or -MOST
end

if not expected then call('HDEL', INSTANCES, owner) end
for _, token in ipairs(some_instances()) do
  if expected_of(call('HGET', INSTANCES, token)) < now - GONE_AFTER_MS then
    call('HDEL', INSTANCES, token)
  end
end
if expected then keep_instance(owner, expected, head[3], head[4]) end
return reply({})
