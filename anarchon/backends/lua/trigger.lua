-- trigger: puts ordered runs as waiting, in place of those that nobody has taken for too long.
-- KEYS: as in common.lua.
-- ARGV[1]: data or null
-- ARGV[2] and on: job, slot, manual

local data = given(1)[1]

local function is_forgotten(run)
  return not alive(run) and now - run.since > KEPT_MS
end

local function forget(job)
  local gone = {}
  for _, letter in ipairs({'r', 'b', 't'}) do
    local examined = 0
    any_order(letter, job, nil, function(run)
      if is_forgotten(run) then gone[#gone + 1] = run end
      examined = examined + 1
      return examined == EXAMINED
    end)
  end
  for _, run in ipairs(gone) do remove(run) end
end

local function order(job, slot, manual)
  local run = find(job, slot, manual)
  if not run then
    run = new_run({
      job = job, slot = slot, manual = manual, state = 'waiting', attempt = 0, ends = now,
    })
    if data then call('HSET', CHECKPOINTS, run.id, data) end
    put_format()
  end
  -- Also written again as it is: else `WAIT` on a new connection would have nothing to wait for.
  if not run.broken then put(run) end
end

local items, forgotten, answers = {}, {}, {}
for place = 2, #ARGV do
  local item = given(place)
  items[place - 1] = item
  if not forgotten[item[1]] then forget(item[1]) end
  forgotten[item[1]] = true
end
for place, item in ipairs(items) do
  order(item[1], item[2], item[3])
  answers[place] = {'yes'}
end
return reply(answers)
