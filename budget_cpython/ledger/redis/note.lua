-- Append events whose names are new, and drop old ones. KEYS: all events, the numbers of their
-- names, the last number, the reply to this call. ARGV: …, most events, seconds to keep them,
-- milliseconds to keep the reply, then kind, account, name and details of each.

local said = redis.call('GET', KEYS[4])
if said then
  return {'ok', cmsgpack.unpack(said)}
end
local first, fresh, named, numbers = 8, {}, {}, {}
for at = first, #ARGV, 4 do
  local name = ARGV[at + 2]
  if name == '' or not named[name] and redis.call('HEXISTS', KEYS[2], name) == 0 then
    named[name], fresh[#fresh + 1], numbers[#numbers + 1] = true, at, #fresh + 1
  else
    numbers[#numbers + 1] = 0
  end
end
if #fresh == 0 then
  return {'ok', numbers}
end
local seconds, before = math.floor(now / 1000), redis.call('INCRBY', KEYS[3], #fresh) - #fresh
for index, at in ipairs(fresh) do
  local kind, account, name, details = unpack(ARGV, at, at + 3)
  local number = string.format('%d', before + index)
  redis.call('XADD', KEYS[1], number .. '-0', 'at', string.format('%d', seconds),
    'kind', kind, 'account', account, 'name', name, 'details', details)
  if name ~= '' then
    redis.call('HSET', KEYS[2], name, number)
  end
end
for index, number in ipairs(numbers) do
  numbers[index] = number > 0 and number + before or 0
end
redis.call('SET', KEYS[4], cmsgpack.pack(numbers), 'PX', ARGV[7])
local most, over = tonumber(ARGV[5]), seconds - tonumber(ARGV[6])
for _ = 1, #fresh + 100 do
  local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
  local fields = oldest and oldest[2]
  if not oldest or redis.call('XLEN', KEYS[1]) <= most and tonumber(fields[2]) > over then
    break
  end
  redis.call('XDEL', KEYS[1], oldest[1])
  redis.call('HDEL', KEYS[2], fields[8])
end
return {'ok', numbers}
