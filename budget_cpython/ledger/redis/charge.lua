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
add_to_all(accounts, SPENT, amounts)
local hold = {path, 'committed', false, amounts, amounts, {}, now + tonumber(ARGV[2])}
redis.call('SET', KEYS[#KEYS], cmsgpack.pack(hold), 'PX', ARGV[2])
save(accounts)
return 0
