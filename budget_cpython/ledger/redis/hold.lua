-- Return a hold as it is now.

local hold = find()
if not hold or hold[PATH] ~= path then
  return {'no hold'}
end
expire(hold)
return reply(hold)
