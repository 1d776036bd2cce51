-- Read a page of events: return where the next one begins, nothing at the end, and those events that
-- are of the path and kinds. KEYS: all events. ARGV: …, XRANGE or XREVRANGE, where the page begins,
-- how many to read, then kinds, all without any.

local kinds, all, size = {}, #ARGV < 8, tonumber(ARGV[7])
for at = 8, #ARGV do
  kinds[ARGV[at]] = true
end
local chosen, other = {}, ARGV[5] == 'XRANGE' and '+' or '-'
local page = redis.call(ARGV[5], KEYS[1], ARGV[6], other, 'COUNT', size)
for _, entry in ipairs(page) do
  local number, of = entry[1], entry[2] -- names and values, as note.lua writes them
  local kind, account = of[4], of[6]
  local below = path == '' or account == path or string.sub(account, 1, #path + 1) == path .. '/'
  if below and (all or kinds[kind]) then
    chosen[#chosen + 1] = {number, of[2], kind, account, of[8], of[10]}
  end
end
return {'ok', #page < size and '' or '(' .. page[#page][1], chosen}
