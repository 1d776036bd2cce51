-- Record what a call used in the place of its hold. ARGV: …, what differs from what was held.

local hold = find()
if not hold or hold[PATH] ~= path then
  return {'no hold'}
end
if hold[STATE] ~= 'committed' then
  local accounts = open(#KEYS - 1)
  commit(hold, accounts, read_amounts(5))
  save_settled(hold)
  save(accounts)
end
return reply(hold)
