-- Add to what was used in some hours; return those that are kept no longer. KEYS: when all hours
-- began, the reply to this call, the hours. ARGV: …, until when hours are over, milliseconds to keep
-- the reply, when the hours began, then place of the hour among these, what was used, and how much.

if redis.call('EXISTS', KEYS[2]) == 1 then
  return {'ok', {}}
end
local hours = #KEYS - 2
redis.call('SET', KEYS[2], '', 'PX', ARGV[6])
for at = 1, hours do
  redis.call('ZADD', KEYS[1], ARGV[6 + at], ARGV[6 + at])
end
for at = 7 + hours, #ARGV, 3 do
  redis.call('HINCRBY', KEYS[2 + tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2])
end
return {'ok', redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[5])}
