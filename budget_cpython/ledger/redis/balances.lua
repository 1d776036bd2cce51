-- Return what stands against each limit of some accounts, as if windows that are over had moved on:
-- lines, which clients read faster than numbers. KEYS: the root's two, and then the accounts.
-- ARGV: …, bounds.

if #redis.call('ZRANGEBYSCORE', KEYS[1], 0, now, 'LIMIT', 0, 1) > 0 then
  return {'due'}
end
local accounts = open(#KEYS)
local roll, lines = follow(accounts, nil, true), {}
if roll then
  return roll
end
for _, account in ipairs(accounts) do
  for _, limit in ipairs(account.limits) do
    local spent, spent_high, held, held_high = totals(limit)
    lines[#lines + 1] = string.format(
      '%d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d', account.depth, limit[AXIS], limit[WINDOW],
      limit[CAP] or -1, spent, spent_high, held, held_high, limit[START], limit[END])
  end
end
return {'ok', table.concat(lines, '\n')}
