-- Keep a hold live for longer. ARGV: …, ttl.

local hold = find()
if not hold or hold[PATH] ~= path then
  return {'no hold'}
end
expire(hold)
if hold[STATE] ~= 'held' then
  return {'settled', hold[STATE]}
end
hold[EXPIRES] = math.max(hold[EXPIRES], now + tonumber(ARGV[5]))
redis.call('ZREM', KEYS[1], path .. ' ' .. id) -- first, as when a hold is settled
redis.call('ZADD', KEYS[1], hold[EXPIRES], path .. ' ' .. id)
redis.call('SET', KEYS[#KEYS], cmsgpack.pack(hold))
return reply(hold)
