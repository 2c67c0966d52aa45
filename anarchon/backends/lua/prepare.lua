-- prepare: tries every command that the others call, and writes the version of the format.
-- KEYS: as in common.lua; what is tried leaves nothing behind.
-- ARGV: none
--
-- The answers name, each with what the server said, the commands that don't work.

local answers = {}

local function try(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    answers[#answers + 1] = {(select(1, ...)), answer.err}
  end
end

-- The option GT came with the oldest server that will do; nothing is added.
try('ZADD', ORDER, 'XX', 'GT', 0, '')
try('ZREM', ORDER, '')
try('ZRANGEBYLEX', ORDER, '-', '-')
try('ZREVRANGEBYLEX', ORDER, '-', '-')
try('HDEL', CHECKPOINTS, '')
try('HEXISTS', LINES, '')
try('HRANDFIELD', INSTANCES, 0)
try('HSET', META, 'format', digits(format or FORMAT))
return reply(answers)
