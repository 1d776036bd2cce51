-- Return holds that are not settled: each with its place among the keys. KEYS: the root's two, and
-- then the holds. Those of releases that did not note when they were taken had the default ttl.

local rows = {}
for at = 3, #KEYS do
  local packed = redis.call('GET', KEYS[at])
  local hold = packed and cmsgpack.unpack(packed)
  if hold and hold[STATE] == 'held' and now < hold[EXPIRES] then
    local taken = hold[TAKEN] or hold[EXPIRES] - 300000
    rows[#rows + 1] = {at - 3, hold[PATH], flat(hold[AMOUNTS]), taken, hold[EXPIRES]}
  end
end
return {'ok', rows}
