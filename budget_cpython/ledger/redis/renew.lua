-- Commit a hold and take the next one. KEYS: …, the former hold, and the next one. ARGV: …, ttl, the
-- former hold's id, where what it used ends, what differs from what it held, and the amounts of the
-- next one.

-- Have the functions of holds work on one of the two, and return it.
local function look_at(key, name)
  keys, id = {unpack(KEYS, 1, #KEYS - 2)}, name
  keys[#keys + 1] = key
  return find()
end

local first, last, answer = 8, tonumber(ARGV[7]), nil
local former = look_at(KEYS[#KEYS - 1], ARGV[6])
if not former or former[PATH] ~= path then
  return {'no hold'}
end
local settles = former[STATE] ~= 'committed'
local known = look_at(KEYS[#KEYS], ARGV[4])
if known then
  answer = again(known, false, read_amounts(last + 1))
  if answer[1] ~= 'ok' then
    return answer
  end
end
local accounts, over = open(#keys - 1)
if not known and #accounts == 0 then
  return {'no account'}
end
if not known and over then
  return {'over'}
end
if settles then
  commit(former, accounts, read_amounts(first, last))
end
if not known then
  local hold, why_not = admit(accounts, read_amounts(last + 1))
  if not hold then
    return why_not
  end
  save_held(hold)
  answer = hold[EXPIRES]
end
if settles then
  look_at(KEYS[#KEYS - 1], ARGV[6])
  save_settled(former)
end
save(accounts)
return answer
