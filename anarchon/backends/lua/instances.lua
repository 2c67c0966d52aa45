-- instances: what is kept of the instances that were heard of, in no order.
-- KEYS: as in common.lua; nothing is written.
-- ARGV[1]: nothing

-- How an instance is told; nil when something else than anarchon wrote it.
local function words_of(token, values)
  local seen, expected = whole(values[1], -MOST, MOST), whole(values[2], -MOST, MOST)
  local state, about = text(values[3]), text(values[4])
  if seen and expected and state and about then return {token, seen, expected, state, about} end
end

local answers = {}
for _, token in ipairs(some_instances()) do
  answers[#answers + 1] = words_of(token, stored(call('HGET', INSTANCES, token)))
end
return reply(answers)
