-- Hold amounts on every limit of the path, if each has as much left. ARGV: …, ttl, amounts.

if find() then
  return {'known'}
end
local accounts, over = open(#KEYS - 1)
if #accounts == 0 then
  return {'no account'}
end
if over then
  return {'over'}
end
local hold, why_not = admit(accounts, read_amounts(6))
if not hold then
  return why_not
end
save_held(hold)
save(accounts)
return hold[EXPIRES]
