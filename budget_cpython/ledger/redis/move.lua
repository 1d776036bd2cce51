-- Move the limits of the path to the windows of now. ARGV: …, bounds.

local accounts = open(#KEYS)
local roll = follow(accounts)
if roll then
  return roll
end
save(accounts)
return {'ok'}
