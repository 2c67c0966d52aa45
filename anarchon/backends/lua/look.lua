-- look: what is wrong among the open runs of these jobs, or (unfinished) all of them.
-- KEYS: as in common.lua; nothing is written but, with everything, the words of an instance.
-- ARGV[1]: owner, everything, and the words of present.lua
-- ARGV[2] and on: job

local head = given(1)
local owner, everything = head[1], head[2] == 1
note(head, 3)

-- Handed over, ended, renewed after store time, or not renewed for too long.
local function is_wrong(run)
  local ahead = left(run)
  if run.state == 'waiting' or ahead <= 0 or ahead > run.lease then return true end
  return run.lease - ahead >= 1.5 * run.heartbeat
end

local open, others, next_end = {}, 0, nil
for place = 2, #ARGV do
  local name = given(place)[1]
  for _, run in ipairs(open_runs(name, {})) do
    if everything or is_wrong(run) then open[#open + 1] = told(run) end
    if not is_mine(run, owner) then
      others = others + 1
      if alive(run) then next_end = math.min(next_end or FOREVER, left(run)) end
    end
  end
  for _, run in ipairs(takeable(name)) do
    open[#open + 1] = told(run) -- it waits, and nobody has it
    others = others + 1
  end
end
return reply({}, open, {}, others, next_end)
