-- SPDX-License-Identifier: Apache-2.0
-- gpupool for Lua: what is shorter in Lua than in C.
--
--   local gpupool = require "gpupool"
--   local pool <close> = gpupool.open { limit = "1GiB" }
--   local block <close> = pool:allocate(1 << 20)
local core = require "gpupool.core"

local gpupool = setmetatable({}, { __index = core })

-- The names that an option takes, in quotes: "auto", "cuda", "sim".
local function names_of(option)
  local prefix, names = option:upper() .. "_", {}
  for constant in pairs(core) do
    if constant:sub(1, #prefix) == prefix then names[#names + 1] = ("%q"):format(constant:sub(#prefix + 1):lower()) end
  end
  table.sort(names)
  return table.concat(names, ", ")
end

-- "sim" for the option backend is BACKEND_SIM.
local function set_enum(config, value, option)
  if type(value) == "string" then
    local number = core[(option .. "_" .. value):upper()]
    if not number then error(("gpupool: %s is %q: one of %s is wanted"):format(option, value, names_of(option)), 4) end
    value = number
  end
  config[option] = value
end

local function fill(config, options, known)
  for option, value in pairs(options) do
    if not known[option] then error(("gpupool: unknown option %q"):format(tostring(option)), 3) end
    known[option](config, value, option)
  end
  return config
end

local function set(config, value, option) config[option] = value end

local pool_options = {
  backend = set_enum, mode = set_enum, kind = set_enum, fraction = set, limit_bytes = set, slack = set,
  max_chunk_bytes = set,
  device = function(config, device)
    if type(device) == "string" then config:set_device(device) else config.device = device end
  end,
  limit = function(config, limit)
    if type(limit) == "string" then config:set_limit(limit) else config.limit_bytes = limit end
  end,
  capture_aware = function(config, value) config:set_capture_aware(value) end,
  peers = function(config, devices)
    for _, device in ipairs(devices) do config:add_peer(device) end
  end,
}

local sim_options = { data = set, capacity_bytes = set, price_scale = set }

-- A pool, by its device and limit in words: open("cuda:1", "8GiB"), open("sim", "40%"); or with the options of
-- gpupool_config_t as a table: open { backend = "sim", limit_bytes = 1 << 30, peers = { 1 } }, in which device and
-- limit may be words as well.
function gpupool.open(options, limit)
  if type(options) == "string" then options = { device = options, limit = limit } end
  return core.Pool(fill(core.Config(), options or {}, pool_options))
end

-- Sets how a simulated device behaves; the options are the fields of gpupool_sim_config_t.
function gpupool.sim_configure(device, options)
  core.sim_configure(device, fill(core.SimConfig(), options or {}, sim_options))
end

-- Two lists: segments, and blocks.
function gpupool.snapshot(pool)
  local snapshot = pool:snapshot()
  local segments, blocks = {}, {}
  for i = 1, snapshot:segment_count() do segments[i] = snapshot:segment(i - 1) end
  for i = 1, snapshot:block_count() do blocks[i] = snapshot:block(i - 1) end
  return { segments = segments, blocks = blocks }
end

return gpupool
