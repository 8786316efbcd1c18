-- SPDX-License-Identifier: Apache-2.0
-- Runs tests/scenario files: run_scenarios.lua FILE... Every language's runner prints the same.
local gpupool = require "gpupool"
local json = require "dkjson"

local SIM_DEVICE = 7
local ADDRESSES_ONLY = 2
local OPTIONS = { "fraction", "limit_bytes", "slack", "max_chunk_bytes", "mode", "kind" }

local PATHS = {
  "limit_bytes", "cached_bytes", "releasable_bytes", "slack_bytes", "hits", "misses", "steals", "stream_steals",
  "retries", "oom_handler_calls", "failed_mallocs", "streams",
}
for _, group in ipairs { "all", "large", "small" } do
  for _, quantity in ipairs { "requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes",
    "allocated_blocks", "active_blocks", "chunks" } do
    for _, value in ipairs { "current", "peak", "total_allocated", "total_freed" } do
      PATHS[#PATHS + 1] = ("%s.%s.%s"):format(group, quantity, value)
    end
  end
end
for _, call in ipairs { "create", "release", "map", "set_access", "unmap", "address", "malloc", "free",
  "event_record", "query", "stream_wait", "host_wait" } do
  PATHS[#PATHS + 1] = ("driver.%s.count"):format(call)
end

-- A step with an unexpected result is an error, but not a gpupool error.
local function unexpected(what, expected, found)
  error(("%s: expected %s, found %s"):format(what, expected, found), 0)
end

local Scenario = {}
Scenario.__index = Scenario

function Scenario.new(scenario)
  local self = { steps = scenario.steps, name = scenario.name, is_sim = scenario.sim ~= nil }
  self.pools, self.streams, self.blocks, self.saved = {}, {}, {}, {}
  if self.is_sim then
    gpupool.sim_configure(SIM_DEVICE, { data = ADDRESSES_ONLY, capacity_bytes = scenario.sim.capacity_bytes })
  end
  return setmetatable(self, Scenario)
end

function Scenario:close()
  for _, stream in pairs(self.streams) do stream:close() end
  for _, pool in pairs(self.pools) do pool:close() end
end

function Scenario:device()
  if self.is_sim then return gpupool.device_info(gpupool.BACKEND_SIM, SIM_DEVICE) end
  return gpupool.device_info(gpupool.BACKEND_AUTO, 0)
end

function Scenario:statistic(pool, path)
  if path == "device.free_bytes" then return self:device().free_bytes end
  local value = pool:stats()
  for part in path:gmatch("[^.]+") do value = value[part] end
  return value
end

function Scenario:size(size)
  if type(size) ~= "table" then return size end
  return math.floor(size.of_total * self:device().total_bytes) // 512 * 512
end

function Scenario:stream(step, otherwise)
  if not step.stream then return otherwise end
  if step.stream == "unknown" then return gpupool.STREAM_UNKNOWN end
  return self.streams[step.stream]:id()
end

local operations = {
  create = function(self, _, step)
    local options = self.is_sim and { backend = "sim", device = SIM_DEVICE } or {}
    for _, option in ipairs(OPTIONS) do options[option] = step[option] end
    self.pools[step.pool] = gpupool.open(options)
  end,
  destroy = function(self, pool, step)
    pool:close()
    self.pools[step.pool] = nil
  end,
  stream = function(self, pool, step) self.streams[step.stream] = pool:create_stream() end,
  destroy_stream = function(self, _, step)
    self.streams[step.stream]:close()
    self.streams[step.stream] = nil
  end,
  malloc = function(self, pool, step, block)
    local bytes, stream = self:size(step.size), self:stream(step, 0)
    local address = step.alignment and pool:malloc_aligned(bytes, step.alignment, stream) or pool:malloc(bytes, stream)
    self.blocks[block] = { address = address, stream = stream }
  end,
  free = function(self, pool, step, block)
    if not block then return pool:free(step.address) end
    local allocation = self.blocks[block]
    pool:free(allocation.address + (step.offset or 0), self:stream(step, allocation.stream))
  end,
  record_stream = function(self, pool, step, block)
    pool:record_stream(self.blocks[block].address, self:stream(step, 0))
  end,
  release_stream = function(self, pool, step) pool:release_stream(self:stream(step, 0)) end,
  synchronize = function(_, pool) pool:synchronize() end,
  empty = function(_, pool) pool:empty() end,
  reset_peaks = function(_, pool) pool:reset_peaks() end,
  validate = function(_, pool) pool:validate() end,
  trim = function(self, pool, step) pool:trim(self:size(step.target_bytes)) end,
  reserve = function(self, pool, step) pool:reserve(self:size(step.target_bytes), self:stream(step, 0)) end,
  set_fraction = function(_, pool, step) pool:set_fraction(step.fraction) end,
  set_limit = function(self, pool, step) pool:set_limit(self:size(step.limit_bytes)) end,
  look = function() end,
}

function Scenario:perform(step, block)
  local done, failure = pcall(operations[step.op], self, self.pools[step.pool], step, block)
  if done then return "GPUPOOL_SUCCESS", "" end
  if type(failure) ~= "table" then error(failure, 0) end
  return failure.status, failure.message
end

function Scenario:number(value)
  return type(value) == "table" and self.saved[value.saved] + (value.plus or 0) or value
end

function Scenario:check(step, expect, block, message)
  for which, is_wanted in pairs { same_address = true, other_address = false } do
    local other = expect[which]
    if other and (self.blocks[block].address == self.blocks[other].address) ~= is_wanted then
      unexpected("address", which .. " as " .. other, self.blocks[block].address)
    end
  end
  if expect.address_zero ~= nil and (self.blocks[block].address == 0) ~= expect.address_zero then
    unexpected("address_zero", expect.address_zero, self.blocks[block].address)
  end
  if not message:find(expect.message_contains or "", 1, true) then
    unexpected("message", expect.message_contains, message)
  end
  for path, value in pairs(expect.stats or {}) do
    local found = self:statistic(self.pools[step.pool], path)
    local is_range = type(value) == "table" and not value.saved
    local range = is_range and value or { min = value, max = value }
    local low, high = self:number(range.min or 0), self:number(range.max or math.maxinteger)
    if found < low or found > high then
      unexpected(path, low == high and low or ("%d to %d"):format(low, high), found)
    end
  end
end

function Scenario:run_step(step)
  local expect = step.expect or {}
  local wanted = expect.status or "GPUPOOL_SUCCESS"
  local range = step["for"] or { 0, 1, 1 }
  local status, message, block
  for i = range[1], range[2] - 1, range[3] do
    block = step.block and step.block:gsub("#", tostring(i))
    status, message = self:perform(step, block)
    if status ~= wanted then unexpected("status", wanted, status .. " " .. message) end
  end
  self:check(step, expect, block, message)
  for name, path in pairs(step.save or {}) do self.saved[name] = self:statistic(self.pools[step.pool], path) end
end

-- JSON with sorted keys; dkjson sorts by a list.
local function encode(value, names)
  local keys = { "name", "pools", table.unpack(PATHS) }
  table.move(names, 1, #names, #keys + 1, keys)
  table.sort(keys)
  return json.encode(value, { keyorder = keys })
end

function Scenario:result()
  local figures, names = {}, {}
  for name, pool in pairs(self.pools) do
    names[#names + 1] = name
    figures[name] = {}
    for _, path in ipairs(PATHS) do figures[name][path] = self:statistic(pool, path) end
  end
  return encode({ name = self.name, pools = setmetatable(figures, { __jsontype = "object" }) }, names)
end

-- dkjson would round integers beyond 2^63; Lua's own integers wrap, as gpupool's do.
local function decode(text)
  return assert(json.decode((text:gsub("%f[%w]%d+%f[%W]", function(digits)
    local number = 0
    for digit in digits:gmatch("%d") do number = number * 10 + math.tointeger(digit) end
    return #digits > 18 and tostring(number) or nil
  end))))
end

local all_good = true
for _, file in ipairs(arg) do
  local input <close> = assert(io.open(file))
  local scenario = Scenario.new(decode(input:read("a")))
  for number, step in ipairs(scenario.steps) do
    local is_good, problem = pcall(scenario.run_step, scenario, step)
    if not is_good then
      io.stderr:write(("%s: step %d: %s: %s\n"):format(file, number, json.encode(step), problem))
      all_good = false
      goto stopped
    end
  end
  print(scenario:result())
  ::stopped::
  scenario:close()
end
os.exit(all_good, true)
