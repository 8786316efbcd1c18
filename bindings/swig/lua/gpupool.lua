-- SPDX-License-Identifier: Apache-2.0
-- gpupool for Lua: what is shorter in Lua than in C.
--
--   local gpupool = require "gpupool"
--   local pool <close> = gpupool.open { limit_bytes = 1 << 30 }
--   local block <close> = pool:allocate(1 << 20)
local core = require "gpupool.core"

local gpupool = setmetatable({}, { __index = core })

-- "sim" for the option backend is BACKEND_SIM.
local function option_value(option, value)
  if type(value) ~= "string" then return value end
  local number = core[(option .. "_" .. value):upper()]
  if not number then error(("gpupool: %s cannot be %q"):format(option, value), 4) end
  return number
end

local function fill(config, options, known)
  for option, value in pairs(options) do
    if not known[option] then error(("gpupool: unknown option %q"):format(tostring(option)), 3) end
    known[option](config, option_value(option, value), option)
  end
  return config
end

local function set(config, value, option) config[option] = value end

local pool_options = {
  device = set, backend = set, mode = set, kind = set, fraction = set, limit_bytes = set, slack = set,
  max_chunk_bytes = set,
  capture_aware = function(config, value) config:set_capture_aware(value) end,
  peers = function(config, devices)
    for _, device in ipairs(devices) do config:add_peer(device) end
  end,
}

local sim_options = { data = set, capacity_bytes = set, price_scale = set }

-- A pool with the options of gpupool_config_t as a table: backend = "sim", limit_bytes = 1 << 30, peers = { 1 }.
function gpupool.open(options)
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
