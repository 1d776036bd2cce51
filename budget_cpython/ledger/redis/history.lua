-- Return what an account's own limits counted in windows that are over.

if #redis.call('ZRANGEBYSCORE', KEYS[1], 0, now, 'LIMIT', 0, 1) > 0 then
  return {'due'}
end
local accounts, over = open(#KEYS)
if #accounts == 0 then
  return {'no account'}
end
if over then
  return {'over'}
end
local rows, own = {}, accounts[#accounts]
if own.key == KEYS[#KEYS] then
  for _, limit in ipairs(own.limits) do
    local past = past_of(own, limit)
    table.sort(past, function(one, other) return one[START] > other[START] end)
    for _, cell in ipairs(past) do
      rows[#rows + 1] = {
        own.depth, limit[AXIS], limit[WINDOW], cell[CAP],
        cell[SPENT], cell[SPENT + 1], cell[HELD], cell[HELD + 1], cell[START], cell[END],
      }
    end
  end
end
return {'ok', rows}
