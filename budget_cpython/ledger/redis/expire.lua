-- Count a hold as spent if it is over; return how many that were.

local hold = find()
if hold and hold[PATH] == path and hold[STATE] == 'held' then
  return expire(hold) and 1 or 0
end
redis.call('ZREM', KEYS[1], path .. ' ' .. id) -- or it would be found over for ever
return 0
