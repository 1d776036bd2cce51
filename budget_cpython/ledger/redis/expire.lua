-- Count holds as spent that are over; return how many there were. KEYS: the root's two, and then for
-- each hold the accounts of its path and the hold. ARGV: …, path, id and number of keys of each.

local first, count = 3, 0
for at = 5, #ARGV, 3 do
  local last = first + tonumber(ARGV[at + 2]) - 1
  path, id, keys = ARGV[at], ARGV[at + 1], {KEYS[1], KEYS[2], unpack(KEYS, first, last)}
  first = last + 1
  local hold = find()
  if hold and hold[PATH] == path and hold[STATE] == 'held' then
    count = count + (expire(hold) and 1 or 0)
  else
    redis.call('ZREM', KEYS[1], path .. ' ' .. id) -- or it would be found over for ever
  end
end
return count
