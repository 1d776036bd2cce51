-- Give back a hold.

local hold = find()
if not hold or hold[PATH] ~= path then
  return {'no hold'}
end
if not expire(hold) and hold[STATE] == 'held' then
  local accounts = open(#KEYS - 1)
  settle(hold, accounts, 'released', {})
  save_settled(hold)
  save(accounts)
end
return reply(hold)
