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
  for at = 0, 3 do
    limit[EARLIER_SPENT + at] = 0
  end
  for _, cell in ipairs(past) do
    if limit[FIRST] <= cell[START] and cell[START] < limit[START] then
      for at = 0, 2, 2 do
        add(limit, EARLIER_SPENT + at, cell[SPENT + at])
        limit[EARLIER_SPENT + at + 1] = limit[EARLIER_SPENT + at + 1] + cell[SPENT + at + 1]
      end
    end
  end
end
