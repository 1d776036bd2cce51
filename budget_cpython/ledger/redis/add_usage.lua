-- Add to what was used in some hours; return those that are kept no longer. KEYS: when all hours
-- began, the reply to this call, the hours. ARGV: …, the newest of these hours, seconds to keep them,
-- milliseconds to keep the reply, when the hours began, then place of the hour among these, what was
-- used, and how much. Those of a clock that is ahead make no others old. A sum that would be 2^63 or
-- more stays as it is.

if redis.call('EXISTS', KEYS[2]) == 1 then
  return {'ok', {}}
end
local hours = #KEYS - 2
redis.call('SET', KEYS[2], '', 'PX', ARGV[7])
for at = 1, hours do
  redis.call('ZADD', KEYS[1], ARGV[7 + at], ARGV[7 + at])
end
for at = 8 + hours, #ARGV, 3 do
  redis.pcall('HINCRBY', KEYS[2 + tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2])
end
local over = math.min(tonumber(ARGV[5]), math.floor(now / 1000)) - tonumber(ARGV[6])
return {'ok', redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', over))}
