-- Give an account these limits and no others. ARGV: …, bounds, 1 if the account is
-- noted in the list of all, then axis, window and cap of each.

local key = KEYS[#KEYS]
local packed = redis.call('HGET', key, 'limits')
local before, limits = {}, {}
for _, limit in ipairs(packed and cmsgpack.unpack(packed) or {}) do
  before[limit[AXIS] .. ' ' .. limit[WINDOW]] = limit
end
for at = 7, #ARGV, 3 do
  local axis, window = ARGV[at], ARGV[at + 1]
  local name = axis .. ' ' .. window
  limits[#limits + 1] = before[name]
    or {false, 0, NO_DATE, 0, 0, 0, 0, false, axis, window, 0, 0, 0, 0, 0}
  before[name] = nil
end
local account = {key = key, limits = limits, changed = true}
local roll = follow({account}, function(limit)
  return not limit[CELL] or 0 < now and now < limit[START]
end)
if roll then
  return roll
end
if #limits > 0 and not packed and ARGV[6] == '0' then -- a new account's move wrote nothing
  return {'new'}
end
for index, limit in ipairs(limits) do
  limit[CAP] = tonumber(ARGV[6 + 3 * index]) or false
  limit[CELL] = limit[CELL] or redis.call('INCR', KEYS[2])
end
if #limits == 0 then
  redis.call('DEL', key)
else
  save({account})
  for name in pairs(before) do
    redis.call('HDEL', key, name)
  end
end
return {'ok'}
