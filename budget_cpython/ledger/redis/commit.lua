-- Record what a call used in the place of its hold. ARGV: …, what differs from what was held.

local hold = find()
if not hold or hold[PATH] ~= path then
  return {'no hold'}
end
if hold[STATE] ~= 'committed' then
  local used = read_amounts(5)
  for axis, amount in pairs(hold[AMOUNTS]) do
    used[axis] = used[axis] or amount
  end
  local accounts = open(#KEYS - 1)
  settle(hold, accounts, 'committed', used)
  save_settled(hold)
  save(accounts)
end
return reply(hold)
