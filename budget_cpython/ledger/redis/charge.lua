-- Record amounts as spent on every limit of the path. ARGV: …, 0, amounts.

if find() then
  return {'known'}
end
local amounts = read_amounts(6)
local accounts, over = open(#KEYS - 1)
if #accounts == 0 then
  return {'no account'}
end
if over then
  return {'over'}
end
for _, account in ipairs(accounts) do
  for _, limit in ipairs(account.limits) do
    local used = amounts[limit[AXIS]]
    if used then
      add(limit, SPENT, used)
      account.changed = true
    end
  end
end
local hold = {path, 'committed', false, amounts, amounts, {}, now + tonumber(ARGV[2])}
redis.call('SET', KEYS[#KEYS], cmsgpack.pack(hold), 'PX', ARGV[2])
save(accounts)
return 0
