-- Follow the calendar, which the client knows and the server does not. ARGV[5]: the bounds of
-- windows, as lines of name, first, start and end.

-- Move limits to the windows of now: those whose own are over, and those that `moves` is true of.
-- Return the reply that asks for bounds, and move none, if some are not known. `peeks` is whether
-- nothing will be saved.
local function follow(accounts, moves, peeks)
  local names, asked, due = {}, {}, {}

  -- Return first, start and end of the window of that name that `now` is in, if they are known.
  local function bounds_of(window)
    local _, at = string.find(ARGV[5], '\n' .. window .. '\t', 1, true)
    if at then
      local first, start, over = string.match(ARGV[5], '^(%d+)\t(%d+)\t(%d+)', at + 1)
      first, start, over = tonumber(first), tonumber(start), tonumber(over)
      if start <= now and now < over then
        return first, start, over
      end
    end
  end

  -- Move one limit; an existing count of the window continues.
  local function move(account, limit)
    local first, start, over = bounds_of(limit[WINDOW])
    local past, name = past_of(account, limit)
    local rest, again = {}, nil
    for _, cell in ipairs(past) do
      if cell[START] == start and not again then
        again = cell
      else
        rest[#rest + 1] = cell
      end
    end
    if limit[END] == NO_DATE or (start < limit[START] and not again) then
      limit[START], limit[END] = start, over
    else
      again = again or {0, start, over, 0, 0, 0, 0, peeks and 0 or redis.call('INCR', KEYS[2])}
      table.insert(rest, 1, {unpack(limit, CAP, CELL)})
      for at = START, CELL do
        limit[at] = again[at]
      end
      past = rest
    end
    limit[FIRST] = first
    add_earlier(limit, past)
    local kept = {}
    for at, cell in ipairs(past) do
      if at <= KEPT or first <= cell[START] or cell[HELD] ~= 0 or cell[HELD + 1] ~= 0 then
        kept[#kept + 1] = cell
      end
    end
    account.past[name], account.moved[name], account.changed = kept, #kept > 0 or nil, true
  end

  for _, account in ipairs(accounts) do
    for _, limit in ipairs(account.limits) do
      if now >= limit[END] or moves and moves(limit) then
        local window = limit[WINDOW]
        due[#due + 1] = {account, limit}
        if not asked[window] and not bounds_of(window) then
          asked[window], names[#names + 1] = true, window
        end
      end
    end
  end
  if #names > 0 then
    return {'roll', now, names}
  end
  for _, one in ipairs(due) do
    move(one[1], one[2])
  end
end
