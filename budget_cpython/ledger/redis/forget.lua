-- Forget a root without holds, if it has no accounts. KEYS: all accounts, how many of each root.

if redis.call('HGET', KEYS[2], path) == '0' then
  redis.call('HDEL', KEYS[2], path)
end
return {'ok'}
