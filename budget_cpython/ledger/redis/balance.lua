-- Return what stands against each limit of the path.

if #redis.call('ZRANGEBYSCORE', KEYS[1], 0, now, 'LIMIT', 0, 1) > 0 then
  return {'due'}
end
local accounts, over = open(#KEYS)
if #accounts == 0 then
  return {'no account'}
end
if over then
  return {'over'}
end
local rows = {}
for _, account in ipairs(accounts) do
  for _, limit in ipairs(account.limits) do
    local spent, spent_high, held, held_high = totals(limit)
    rows[#rows + 1] = {
      account.depth, limit[AXIS], limit[WINDOW], limit[CAP],
      spent, spent_high, held, held_high, limit[START], limit[END],
    }
  end
end
return {'ok', rows}
