-- Return holds that are not settled, as lines: each with its place among the keys, when it was
-- taken, when it expires, and its amounts. KEYS: the root's two, and then the holds. Those of
-- releases that did not note when they were taken had the default ttl.

local lines = {}
for at = 3, #KEYS do
  local packed = redis.call('GET', KEYS[at])
  local hold = packed and cmsgpack.unpack(packed)
  if hold and hold[STATE] == 'held' and now < hold[EXPIRES] then
    local taken = hold[TAKEN] or hold[EXPIRES] - 300000
    local line = string.format('%d\t%d\t%d', at - 3, taken, hold[EXPIRES])
    for axis, amount in pairs(hold[AMOUNTS]) do
      line = line .. string.format('\t%s\t%d', axis, amount)
    end
    lines[#lines + 1] = line
  end
end
return {'ok', table.concat(lines, '\n')}
