-- Return the limits of the path itself.

local rows, packed = {}, redis.call('HGET', KEYS[#KEYS], 'limits')
for _, limit in ipairs(packed and cmsgpack.unpack(packed) or {}) do
  rows[#rows + 1] = {limit[AXIS], limit[WINDOW], limit[CAP]}
end
return {'ok', rows}
