-- What wrk sends: reservations, and commits of those made a while ago, as JSON with keys of their
-- own. Arguments: "spread" or "hot" accounts, then the operations of a request; above 1 they are
-- batches.
local hot, each = false, 1
local prefix, made = "", 0
local settled = 100 -- wrk builds some requests at its start that it does not send
local behind = 400 -- several times as many requests as there are connections

local headers = { ["Content-Type"] = "application/json" }

function init(args)
  hot = args[1] == "hot"
  each = tonumber(args[2])
  behind, settled = behind * each, settled * each
  math.randomseed(os.time() + tonumber(args[3]))
  prefix = string.format("%08x%08x", math.random(0, 0x7fffffff), math.random(0, 0x7fffffff))
end

local function path_of(number)
  if hot then return "org-0/team-0/agent-0" end
  return string.format("org-%d/team-%d/agent-%d", number % 8, number % 40, number % 1000)
end

local function key_of(number) return string.format("%s-%d", prefix, number) end

local function reserve()
  made = made + 1
  return path_of(made), '"amounts": {"tokens": 500, "calls": 1}, "key": "' .. key_of(made) .. '"}'
end

local function commit()
  settled = settled + 1
  return path_of(settled), '"id": "' .. key_of(settled) .. '", "actual": {"tokens": 321}}'
end

local function next_operation()
  if made - settled > behind then return "commit", commit() end
  return "reserve", reserve()
end

function request()
  if each == 1 then
    local operation, path, fields = next_operation()
    return wrk.format("POST", "/v1/" .. operation .. "/" .. path, headers, "{" .. fields)
  end
  local rows = {}
  for number = 1, each do
    local operation, path, fields = next_operation()
    rows[number] = '{"operation": "' .. operation .. '", "path": "' .. path .. '", ' .. fields
  end
  local body = '{"operations": [' .. table.concat(rows, ", ") .. "]}"
  return wrk.format("POST", "/v1/batch", headers, body)
end
