-- Return the hold that an id stands for already, if it is the same one. ARGV: …, ttl or 0, amounts.

local hold = find()
if not hold then
  return {'gone'}
end
return again(hold, ARGV[5] == '0', read_amounts(6))
