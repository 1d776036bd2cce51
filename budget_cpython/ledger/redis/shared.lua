-- What all scripts share.
--
-- KEYS: when the live holds of the root expire, how many cells the root ever had, then the accounts
-- of the path, the widest first, and last, where an operation has one, the hold.
-- ARGV: now in Unix milliseconds, or nothing for the server's; how long to keep what is settled, in
-- milliseconds; the path; the hold's id, where there is one; then what is the operation's own.
--
-- An account is a hash: `limits` is what counts now, and `axis window` what is over of that limit.
-- A script reads all that it needs before it writes, and its first write is one that fails where
-- Redis refuses to write: so an error leaves everything as it was.
--
-- Functions are made anew at each run, so that a script has few: scripts.py says what each is loaded
-- with.

local BASE, NO_DATE, KEPT = 2 ^ 52, 1, 32
-- a hold
local PATH, STATE, EXPIRES, AMOUNTS, ACTUAL, CELLS, KNOWN_UNTIL, TAKEN = 1, 2, 3, 4, 5, 6, 7, 8
-- a cell, of a window that is over; and a limit, which begins with its current cell. What is spent
-- and held are two numbers each, of which the second counts in units of `BASE`: a Lua number is
-- exact up to 2^53 only, and sums have no bound. `CAP` is false for unlimited.
local CAP, START, END, SPENT, HELD, CELL = 1, 2, 3, 4, 6, 8
local AXIS, WINDOW, FIRST, EARLIER_SPENT, EARLIER_HELD = 9, 10, 11, 12, 14

local now, path, id, keys = tonumber(ARGV[1]), ARGV[3], ARGV[4], KEYS
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Return amounts by axis from the last arguments, or those up to `last`, which are the axis and the
-- amount of each, the axes whose amount has no bound, given as -1, and those that a limit has to
-- count, given as -2.
local function read_amounts(first, last)
  local amounts, unbounded, counted = {}, {}, {}
  for at = first, last or #ARGV, 2 do
    local axis, amount = ARGV[at], tonumber(ARGV[at + 1])
    if amount == -2 then
      counted[axis] = true
    elseif amount == -1 then
      unbounded[axis] = true
    else
      amounts[axis] = amount
    end
  end
  return amounts, unbounded, counted
end

-- Return the path's accounts from the keys up to `last`, and whether one of their windows is over;
-- `depth` of an account says which of them it is.
local function open(last)
  local accounts, over = {}, false
  for at = 3, last do
    local packed = redis.call('HGET', keys[at], 'limits')
    if packed then
      local limits = cmsgpack.unpack(packed)
      accounts[#accounts + 1] = {key = keys[at], depth = at - 2, limits = limits}
      for _, limit in ipairs(limits) do
        over = over or now >= limit[END]
      end
    end
  end
  return accounts, over
end

-- Add an amount, which may be below 0, to what is spent or held.
local function add(cell, at, amount)
  local low = cell[at] + amount % BASE
  cell[at] = low % BASE
  cell[at + 1] = cell[at + 1] + math.floor(amount / BASE) + math.floor(low / BASE)
end

-- Add amounts by axis to what is spent or held, on every limit of some accounts.
local function add_to_all(accounts, at, amounts)
  for _, account in ipairs(accounts) do
    for _, limit in ipairs(account.limits) do
      local amount = amounts[limit[AXIS]]
      if amount then
        add(limit, at, amount)
        account.changed = true
      end
    end
  end
end

-- Return what is spent and held in the whole window, as two numbers each.
local function totals(limit)
  local s, h, es, eh = SPENT, HELD, EARLIER_SPENT, EARLIER_HELD
  return limit[s] + limit[es], limit[s + 1] + limit[es + 1],
    limit[h] + limit[eh], limit[h + 1] + limit[eh + 1]
end

local function save(accounts)
  for _, account in ipairs(accounts) do
    if account.changed then
      redis.call('HSET', account.key, 'limits', cmsgpack.pack(account.limits))
      for name in pairs(account.moved or {}) do
        redis.call('HSET', account.key, name, cmsgpack.pack(account.past[name]))
      end
    end
  end
end

-- Return the hold in the last key, if it is known still. Redis forgets it by its own clock, which
-- need not be the ledger's.
local function find()
  local packed = redis.call('GET', keys[#keys])
  local hold = packed and cmsgpack.unpack(packed)
  return hold and not (hold[KNOWN_UNTIL] and now >= hold[KNOWN_UNTIL]) and hold
end
