-- Hold amounts on every limit of the path, if each has as much left. ARGV: …, ttl, amounts.

if find() then
  return {'known'}
end
local amounts, unbounded, counted = read_amounts(6)
local accounts, over = open(#KEYS - 1)
if #accounts == 0 then
  return {'no account'}
end
if over then
  return {'over'}
end
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
  return {'uncounted', (next(counted))}
end
if #refused > 0 then
  return {'refused', refused}
end
for _, account in ipairs(accounts) do
  for _, limit in ipairs(account.limits) do
    local asked = amounts[limit[AXIS]]
    if asked then
      add(limit, HELD, asked)
      account.changed = true
    end
  end
end
local expires = now + tonumber(ARGV[5])
redis.call('ZADD', KEYS[1], expires, path .. ' ' .. id)
redis.call('SET', KEYS[#KEYS], cmsgpack.pack({path, 'held', expires, amounts, false, cells}))
save(accounts)
return expires
