-- Take holds.

-- Hold amounts on all limits of a path: return the hold, or none and what is to be replied. Nothing
-- is written.
local function admit(accounts, amounts, unbounded, counted)
  local refused, cells = {}, {}
  for _, account in ipairs(accounts) do
    for _, limit in ipairs(account.limits) do
      local asked, left = amounts[limit[AXIS]], limit[CAP]
      if left and (asked or unbounded[limit[AXIS]]) then
        local spent, spent_high, held, held_high = totals(limit)
        left = left - spent - spent_high * BASE - held - held_high * BASE -- exact, or below 0
        if not asked or left < asked then
          refused[#refused + 1] = {
            limit[END], account.depth, limit[AXIS], limit[WINDOW], asked or false, limit[CAP],
            spent, spent_high, held, held_high,
          }
        end
      end
      cells[#cells + 1], counted[limit[AXIS]] = limit[CELL], nil
    end
  end
  if next(counted) then
    return nil, {'uncounted', (next(counted))}
  end
  if #refused > 0 then
    return nil, {'refused', refused}
  end
  add_to_all(accounts, HELD, amounts)
  return {path, 'held', now + tonumber(ARGV[5]), amounts, false, cells, false, now}
end

-- Write a hold that is taken, under the last key.
local function save_held(hold)
  redis.call('ZADD', KEYS[1], hold[EXPIRES], path .. ' ' .. ARGV[4])
  redis.call('SET', KEYS[#KEYS], cmsgpack.pack(hold))
end
