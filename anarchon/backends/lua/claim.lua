-- claim: decides who runs these attempts, run by run in the order sent.
-- KEYS: as in common.lua.
-- ARGV[1]: owner, instance, wins, tolerance, expected, steady, and the words of present.lua
-- ARGV[2] and on: job, slot, wants, reason, beat, unseen or null, fence seen, lease, heartbeat,
--   budget, skip overlap, catch-up, manual

local head = given(1)
local owner, instance, wins, tolerance = head[1], head[2], head[3], head[4]
local expected, steady = head[5], head[6]
note(head, 7)
local all_paused = whole(tonumber(call('HGET', META, 'paused') or nil), 0, FOREVER) or 0

local function wish_of(place)
  local item = given(place)
  return {
    job = item[1], slot = item[2], wants = item[3], reason = item[4], beat = item[5],
    unseen = item[6] or -1, fence_seen = item[7], lease = item[8], heartbeat = item[9],
    budget = item[10], skip_overlap = item[11] == 1, catch_up = item[12], manual = item[13],
  }
end

local function is_paused(job)
  return now < all_paused or now < job.paused
end

-- Whether the asker may take the lease that it saw for ended: the same renewal seen for a
-- whole lease is always enough; else the store's word needs a witness, for its clock may step.
local function has_ended(run, wish)
  if wish.unseen >= run.lease then return true end
  local margin = math.max(run.lease / 10, 250)
  local witness = run.lease - margin
  local agree = math.abs(now - expected) < margin / 2 and steady >= witness
  return left(run) <= 0 and (wish.unseen >= witness or agree)
end

-- A value that leaves no room below the limit is nonsense and doesn't count.
local function next_fence(job, seen)
  local fence = job.fence + 1
  for _, value in ipairs({seen + 1, now * 1000}) do
    if value < FENCE_LIMIT then fence = math.max(fence, value) end
  end
  return math.min(fence, FENCE_LIMIT - 1)
end

-- Give the attempt that the wish names to the asker.
local function start(wish, run, deaths)
  local fields = {
    job = wish.job, slot = wish.slot, manual = wish.manual, state = 'running', attempt = wish.wants,
    owner = owner, ends = now + wish.lease, lease = wish.lease, heartbeat = wish.heartbeat,
    beat = 0, fence = next_fence(job_of(wish.job), wish.fence_seen), deaths = deaths,
    budget = wish.budget, catch_up = wish.catch_up, cancel = 0, by = '', since = now,
  }
  local line = {status = 'running', reason = wish.reason, instance = instance, started = now}
  wins = wins - 1
  local checkpoint = false
  if run then
    checkpoint = call('HGET', CHECKPOINTS, run.id)
    for name, value in pairs(fields) do run[name] = value end
    open_line(run, line)
  else
    run = insert(fields, line)
  end
  return {'won', run.attempt, run.lease, run.fence, checkpoint}
end

-- Close a run that died for good, under the name its death deserves.
local function close_dead(run)
  run.deaths = run.deaths + 1
  local ending = {status = 'lost', detail = run.budget > 0 and 'too old' or 'runner died'}
  if run.cancel ~= 0 then
    ending = {status = 'interrupted', detail = 'cancelled'}
  elseif run.budget > 0 and run.deaths >= run.budget then
    ending = {status = 'failed', error = died(run.deaths)}
  end
  ending.finished = now
  close(run, owner, ending)
  return closed_words(run, owner)
end

local function claim_running(run, wish)
  local seen = wish.wants == run.attempt + 1 and wish.beat == run.beat
  if not (seen and has_ended(run, wish)) then return open_words(run, 'held') end
  if not continuable(run, wish.catch_up) then return close_dead(run) end
  if is_paused(job_of(run.job)) or wins <= 0 then return open_words(run, 'held') end
  end_line(run.id, run.attempt, {status = 'lost', detail = 'taken over', finished = now})
  return start(wish, run, run.deaths + 1)
end

local function claim_waiting(run, wish)
  if wish.wants ~= run.attempt + 1 then return {'waiting', run.attempt} end
  if too_old(run, wish.catch_up) then
    close(run, owner, {status = 'lost', detail = 'too old'})
    return closed_words(run, owner)
  end
  local stops = run.manual == '' or is_backfill(run.manual) -- what was triggered goes on
  if wins <= 0 or (stops and is_paused(job_of(run.job))) then return {'waiting', run.attempt} end
  return start(wish, run, run.deaths)
end

local closed = {}

-- A backfilled slot comes after all older ones, and when none is running; those whose runner
-- died are closed by whoever has the next one.
local function claim_backfill(run, wish)
  if any_order('b', run.job, run.id, function() return true end) then
    return {'waiting', run.attempt}
  end
  local dead = {}
  local function is_alive(other)
    dead[#dead + 1] = other
    return alive(other)
  end
  if any_order('r', run.job, nil, is_alive) then return {'waiting', run.attempt} end
  local answer = claim_waiting(run, wish)
  if answer[1] ~= 'won' then return answer end
  for _, other in ipairs(dead) do
    close(other, owner, {status = 'lost', detail = 'runner died', finished = now})
    closed[#closed + 1] = public(other)
  end
  return answer
end

-- A run that the fleet was asked for is given once; one that runs is nobody's to take over.
local function claim_manual(run, wish)
  if run.state ~= 'waiting' then return open_words(run, 'held') end
  if is_backfill(run.manual) then return claim_backfill(run, wish) end
  return claim_waiting(run, wish)
end

local function claim_known(run, wish)
  if run.state == 'closed' then return closed_words(run, owner) end
  if holds(run, wish.wants, owner) then
    renew(run, wish.lease)
    local checkpoint = call('HGET', CHECKPOINTS, run.id)
    return {'won', run.attempt, run.lease, run.fence, checkpoint}
  end
  if run.manual ~= '' then return claim_manual(run, wish) end
  if run.state == 'waiting' then return claim_waiting(run, wish) end
  return claim_running(run, wish)
end

-- Whether a later slot of the job, not after store time, is recorded.
local function has_newer(wish)
  local name = escaped(wish.job)
  local least = '[' .. name .. '\0' .. stamp(wish.slot + 1)
  local most = '(' .. name .. '\0' .. stamp(now + 1)
  local function is_slot(id) return id:sub(-1) == '\0' end -- manual runs are in none of the guards
  for _, class in ipairs({OPEN, KEPT, SKIPS}) do
    if any_of(class, least, most, is_slot) then return true end
  end
  return false
end

local function skipped(wish, detail)
  return closed_words(close_new(wish.job, wish.slot, owner, instance, 'skipped', detail), owner)
end

-- The overlap guard: any other slot of the job that is open counts.
local function behind(wish, others)
  local dead
  for _, run in ipairs(others) do
    if alive(run) or continuable(run, wish.catch_up) then return skipped(wish, 'overlap') end
    if run.state == 'running' and not dead then dead = run end
  end
  if dead then return open_words(dead, 'suspect', dead.slot) end
end

-- Judge a wish for a run that has no record.
local function claim_new(wish, this)
  local job = job_of(wish.job)
  local wait = wish.slot - now
  if wish.manual ~= '' then return {'missing'} end
  if wish.slot <= job.floor then return trimmed() end
  if wish.wants > 1 then return {'missing'} end
  if wait > tolerance then return {'early', wait} end
  if has_newer(wish) then return skipped(wish, 'newer slot') end
  if is_paused(job) then return skipped(wish, 'paused') end
  if wish.skip_overlap then
    local others = open_runs(wish.job, this)
    for _, run in ipairs(others) do
      if run.state == 'waiting' and too_old(run, wish.catch_up) then
        close(run, owner, {status = 'lost', detail = 'too old'})
        closed[#closed + 1] = public(run)
      end
    end
    local blocked = behind(wish, others)
    if blocked then return blocked end
  end
  if wins <= 0 then return {'free'} end
  return start(wish, nil, 0)
end

local wishes = {}
for place = 2, #ARGV do
  local wish = wish_of(place)
  wishes[place - 1] = wish
  -- What is the asker's already counts, wherever it stands: one worker, one run.
  if holds(find(wish.job, wish.slot, wish.manual), wish.wants, owner) then wins = wins - 1 end
end

-- The escaped names of the jobs that have something with this letter in what the fleet is asked
-- for, in their order; each is found by one step past all of the last one.
local function jobs_with(letter)
  local names, least, most = {}, '[' .. letter, '(' .. string.char(letter:byte() + 1)
  repeat
    local member = call('ZRANGEBYLEX', ORDERS, least, most, 'LIMIT', 0, 1)[1]
    if member then
      names[#names + 1] = member:sub(2):match('^%Z*')
      least = '(' .. letter .. names[#names] .. '\1'
    end
  until not member
  return names
end

-- What is ordered of jobs that nobody asked about here: those with triggered runs first.
local function elsewhere(asked)
  local found, count = {}, 0
  for _, letter in ipairs({'t', 'b'}) do
    for _, name in ipairs(jobs_with(letter)) do
      local runs = asked[name] and {} or takeable(named(name))
      asked[name] = true
      if #runs > 0 then count = count + 1 end
      if count > OTHER_JOBS then return found end
      for _, run in ipairs(runs) do found[#found + 1] = run end
    end
  end
  return found
end

local answers, open, asked = {}, {}, {}
for place, wish in ipairs(wishes) do
  asked[escaped(wish.job)] = true
  local run = find(wish.job, wish.slot, wish.manual)
  local id = id_of(wish.job, wish.slot, wish.manual)
  local this = {[id] = true}
  answers[place] = run and claim_known(run, wish) or claim_new(wish, this)
  for _, other in ipairs(open_runs(wish.job, this, NAMED_OPEN)) do
    open[#open + 1] = told(other)
  end
  for _, other in ipairs(takeable(wish.job, id)) do open[#open + 1] = told(other) end
end
if is_asked() then
  for _, other in ipairs(elsewhere(asked)) do open[#open + 1] = told(other) end
end
trim()
return reply(answers, open, closed)
