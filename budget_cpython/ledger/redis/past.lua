-- Read what windows counted that are over.

-- Return the cells of a limit whose windows are over, the last one that was left first, and the
-- name under which they are kept.
local function past_of(account, limit)
  local name = limit[AXIS] .. ' ' .. limit[WINDOW]
  account.past, account.moved = account.past or {}, account.moved or {}
  if not account.past[name] then
    local packed = redis.call('HGET', account.key, name)
    account.past[name] = packed and cmsgpack.unpack(packed) or {}
  end
  return account.past[name], name
end

-- Count what is over and still within reach of a rolling window.
local function add_earlier(limit, past)
  local spent, held = 0, 0
  for _, cell in ipairs(past) do
    if limit[FIRST] <= cell[START] and cell[START] < limit[START] then
      spent, held = math.min(MOST, spent + cell[SPENT]), math.min(MOST, held + cell[HELD])
    end
  end
  limit[EARLIER_SPENT], limit[EARLIER_HELD] = spent, held
end
