-- release: hands attempts over, or closes those that were cancelled or died for the last time.
-- KEYS: as in common.lua.
-- ARGV[1]: owner, instance
-- ARGV[2] and on, a result: as for finish

local owner = given(1)[1]

local function said(words)
  return words ~= '' and words or nil
end

local function hand_over(run, result)
  local ending = ending_of(result)
  ending.status = 'interrupted'
  run.deaths = run.deaths + result.counted
  if run.cancel ~= 0 then
    ending.detail = 'cancelled'
  elseif result.counted > 0 and run.deaths >= run.budget then
    if run.budget > 0 then
      local why = said(result.error) and ': ' .. result.error or ''
      ending.status, ending.detail, ending.error = 'failed', nil, died(run.deaths) .. why
    else
      ending.status, ending.detail = 'lost', 'runner died'
    end
  else
    ending.detail = said(result.detail) or 'handed over'
    run.state, run.ends, run.since = 'waiting', now, now
    put(run)
    end_line(run.id, run.attempt, ending)
    return {'released'}
  end
  close(run, owner, ending)
  return {'recorded', run.status, run.detail or false}
end

local function release(result)
  local run = find(result.job, result.slot, result.manual)
  if holds(run, result.attempt, owner) then return hand_over(run, result) end
  if run and run.owner == owner and run.attempt == result.attempt then
    if run.state == 'waiting' then return {'released'} end
    if closed_by(run, result.attempt, owner) then
      return {'recorded', run.status or 'interrupted', run.detail or false}
    end
  end
  return {'lost'}
end

local answers = {}
for place = 2, #ARGV do
  answers[place - 1] = release(result_of(place))
end
trim()
return reply(answers)
