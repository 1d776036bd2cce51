-- Forget an account that is gone. KEYS: all accounts, how many there are of each root.

if redis.call('SISMEMBER', KEYS[1], path) == 1 then
  redis.call('SREM', KEYS[1], path) -- first: it is not refused for want of memory
  redis.call('HINCRBY', KEYS[2], string.match(path, '^[^/]+'), -1)
end
return {'ok'}
