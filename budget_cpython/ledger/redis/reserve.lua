-- Hold amounts on every limit of the path, if each has as much left. ARGV: …, ttl, amounts.

if find() then
  return {'known'}
end
local amounts, unbounded = read_amounts(6)
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
    local asked = amounts[limit[AXIS]]
    if unbounded[limit[AXIS]] and limit[CAP] < MOST then
      asked = MOST
    end
    if asked then
      local spent = math.min(MOST, limit[SPENT] + limit[EARLIER_SPENT])
      local held = math.min(MOST, limit[HELD] + limit[EARLIER_HELD])
      if spent + held + asked > limit[CAP] then
        refused[#refused + 1] =
          {limit[END], account.depth, limit[AXIS], limit[WINDOW], asked, limit[CAP], spent, held}
      end
    end
    cells[#cells + 1] = limit[CELL]
  end
end
if #refused > 0 then
  return {'refused', refused}
end
for _, account in ipairs(accounts) do
  for _, limit in ipairs(account.limits) do
    local asked = amounts[limit[AXIS]]
    if asked then
      limit[HELD], account.changed = limit[HELD] + asked, true
    end
  end
end
local expires = now + tonumber(ARGV[5])
redis.call('ZADD', KEYS[1], expires, path .. ' ' .. id)
redis.call('SET', KEYS[#KEYS], cmsgpack.pack({path, 'held', expires, amounts, false, cells}))
save(accounts)
return expires
