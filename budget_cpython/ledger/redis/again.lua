-- Return the hold that an id stands for already, if it is the same one. ARGV: …, ttl or 0, amounts.

local amounts, charged, hold = read_amounts(6), ARGV[5] == '0', find()
if not hold then
  return {'gone'}
end
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
