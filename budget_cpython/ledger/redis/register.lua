-- Note an account that is about to be made. KEYS: all accounts, how many there are of each root.
-- ARGV: …, at most how many.

if redis.call('SISMEMBER', KEYS[1], path) == 0 then
  if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[5]) then
    return {'full'}
  end
  redis.call('HINCRBY', KEYS[2], string.match(path, '^[^/]+'), 1)
  redis.call('SADD', KEYS[1], path)
end
return {'ok'}
