-- Say which holds of the root are over, or how many there are if none is. ARGV: …, at most so many.

local members = redis.call('ZRANGEBYSCORE', KEYS[1], 0, now, 'LIMIT', 0, ARGV[5])
if #members > 0 then
  return {'due', members}
end
return {'ok', redis.call('ZCARD', KEYS[1])}
