-- Settle holds, and say what became of them.

-- Put what was used in the place of a hold, in the windows in which it was taken.
local function settle(hold, accounts, state, used)
  local was, amounts, mine = hold[STATE], hold[AMOUNTS], {}
  for _, cell in ipairs(hold[CELLS]) do
    mine[cell] = true
  end

  local function settle_cell(cell, amount, spent)
    if was == 'held' then
      add(cell, HELD, -amount)
    elseif was == 'expired' then
      add(cell, SPENT, -amount)
    end
    add(cell, SPENT, spent)
  end

  for _, account in ipairs(accounts) do
    for _, limit in ipairs(account.limits) do
      local amount, spent = amounts[limit[AXIS]] or 0, used[limit[AXIS]] or 0
      if amount > 0 or spent > 0 then
        if mine[limit[CELL]] then
          settle_cell(limit, amount, spent)
          account.changed = true
        else
          local past, name = past_of(account, limit)
          for _, cell in ipairs(past) do
            if mine[cell[CELL]] then
              settle_cell(cell, amount, spent)
              add_earlier(limit, past)
              account.moved[name], account.changed = true, true
            end
          end
        end
      end
    end
  end
  hold[STATE], hold[ACTUAL] = state, used
  if state == 'committed' then
    hold[CELLS] = {}
  end
end

-- Put what a call used in the place of its hold: what is not named was used as held.
local function commit(hold, accounts, used)
  for axis, amount in pairs(hold[AMOUNTS]) do
    used[axis] = used[axis] or amount
  end
  settle(hold, accounts, 'committed', used)
end

-- Write a hold that is settled. Redis never refuses ZREM for want of memory, nor what comes after a
-- script's first write: so a full server can still be settled with.
local function save_settled(hold)
  redis.call('ZREM', KEYS[1], path .. ' ' .. id)
  hold[KNOWN_UNTIL] = now + tonumber(ARGV[2])
  redis.call('SET', keys[#keys], cmsgpack.pack(hold), 'PX', ARGV[2])
end

-- Count a hold as spent if it is over; return whether it was.
local function expire(hold)
  if hold[STATE] ~= 'held' or now < hold[EXPIRES] then
    return false
  end
  local accounts = open(#keys - 1)
  settle(hold, accounts, 'expired', hold[AMOUNTS])
  save_settled(hold)
  save(accounts)
  return true
end

local function reply(hold)
  local function flat(amounts)
    local found = {}
    for axis, amount in pairs(amounts) do
      found[#found + 1], found[#found + 2] = axis, amount
    end
    return found
  end
  local actual = hold[ACTUAL] and flat(hold[ACTUAL])
  return {'ok', flat(hold[AMOUNTS]), hold[STATE], hold[EXPIRES], actual}
end

-- Return the reply for a key that stands for a hold already.
local function again(hold, charged, amounts)
  local same = hold[PATH] == path and not hold[EXPIRES] == charged
  for axis, amount in pairs(amounts) do
    same = same and hold[AMOUNTS][axis] == amount
  end
  for axis in pairs(hold[AMOUNTS]) do
    same = same and amounts[axis]
  end
  if not same then
    return {'reused'}
  end
  expire(hold)
  return reply(hold)
end
