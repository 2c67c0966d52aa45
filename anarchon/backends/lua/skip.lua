-- skip: closes slots as missed where nobody has them and the job's next slot is due.
-- KEYS: as in common.lua.
-- ARGV[1]: owner, instance, tolerance
-- ARGV[2] and on: job, slot, next slot, detail

local head = given(1)
local owner, instance, tolerance = head[1], head[2], head[3]

local function skip(job, slot, next_slot, detail)
  local run = find(job, slot, '')
  if run then
    if run.state == 'closed' then return closed_words(run, owner) end
    if run.state == 'waiting' then return {'waiting', run.attempt} end
    return open_words(run, 'held')
  end
  if slot <= job_of(job).floor then return trimmed() end
  if next_slot - now > tolerance then return {'early', next_slot - now} end
  return closed_words(close_new(job, slot, owner, instance, 'missed', detail), owner)
end

local answers, names, asked = {}, {}, {}
for place = 2, #ARGV do
  local item = given(place)
  answers[place - 1] = skip(item[1], item[2], item[3], item[4])
  if not asked[item[1]] then
    names[#names + 1] = item[1]
    asked[item[1]] = {}
  end
  asked[item[1]][id_of(item[1], item[2], '')] = true
end
trim()

local open = {}
for _, name in ipairs(names) do
  for _, run in ipairs(open_runs(name, asked[name], NAMED_OPEN)) do
    open[#open + 1] = told(run)
  end
  for _, run in ipairs(takeable(name)) do open[#open + 1] = told(run) end
end
return reply(answers, open)
