-- What the operations share that keep or show what instances say of themselves; put behind
-- `common.lua`.
-- KEYS: as in common.lua.

local MOST_INSTANCES = 1000 -- are looked at, so that every call stays short; any of them

-- Some instances, all if there are no more than that.
local function some_instances()
  return call('HRANDFIELD', INSTANCES, MOST_INSTANCES)
end

-- Keep what an instance says of itself, and what it said before of what is left out.
local function keep_instance(token, expected, state, about)
  about = about or text(stored(call('HGET', INSTANCES, token))[4]) or ''
  local form = '[%.0f,%.0f,%s,%s]'
  call('HSET', INSTANCES, token, form:format(now, expected, quoted(state), quoted(about)))
  put_format()
end

-- Keep what goes along with a call, if something does: the owner begins its head, the rest of
-- `present` stands from a place on. What isn't kept, since the server is full or may not be
-- written to, costs nobody the answer to what was asked.
local function note(head, place)
  if head[place] then
    pcall(keep_instance, head[1], head[place], head[place + 1], head[place + 2])
  end
end
