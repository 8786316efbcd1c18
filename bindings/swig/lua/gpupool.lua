-- SPDX-License-Identifier: Apache-2.0
-- gpupool for Lua: shorter ways than C's.
--
--   local gpupool = require "gpupool"
--   local pool <close> = gpupool.open { limit = "1GiB" }
--   local block <close> = pool:allocate(1 << 20)
local core = require "gpupool.core"

local gpupool = setmetatable({}, { __index = core })

-- The names that an option takes, in quotes: "auto", "cuda", "host", "sim".
local function names_of(option)
  local prefix, names = option:upper() .. "_", {}
  for constant in pairs(core) do
    if constant:sub(1, #prefix) == prefix then names[#names + 1] = ("%q"):format(constant:sub(#prefix + 1):lower()) end
  end
  table.sort(names)
  return table.concat(names, ", ")
end

-- Sets an option by name: "sim" for backend is BACKEND_SIM.
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
  max_chunk_bytes = set, idle_seconds = set, guaranteed_bytes = set, share_wait_ns = set, priority = set,
  share = function(config, group) config:set_share(group) end,
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

local sim_options = { data = set, capacity_bytes = set, price_scale = set, streams = set }

local function in_words(value) return type(value) == "string" and ("%q"):format(value) or tostring(value) end

-- Creates a pool, by its device and limit: open("cuda:1", "8GiB"), open("sim", "40%"), open(1); or with the options of
-- gpupool_config_t as a table, where device and limit may be words as well: open { backend = "sim", limit_bytes = 1 <<
-- 30, peers = { 1 } }.
function gpupool.open(options, limit)
  if options == nil or type(options) == "string" or type(options) == "number" then
    options = { device = options, limit = limit }
  elseif type(options) ~= "table" then
    error(("open: options is %s: a table, or a device as a number or a string, is wanted"):format(in_words(options)), 2)
  elseif limit ~= nil then
    error("open: limit stands beside a table, which has its own", 2)
  end
  return core.Pool(fill(core.Config(), options, pool_options))
end

-- Sets how a simulated device behaves; the options are the fields of gpupool_sim_config_t.
function gpupool.sim_configure(device, options)
  if options ~= nil and type(options) ~= "table" then
    error(("sim_configure: options is %s: a table is wanted"):format(in_words(options)), 2)
  end
  core.sim_configure(device, fill(core.SimConfig(), options or {}, sim_options))
end

local scope = { __name = "gpupool.Tag" }
function scope.__close(tag)
  if not tag.has_ended then core.tag_pop() end
  tag.has_ended = true
end

-- Mallocs carry the name, in reports and recordings, until the end of `local tag <close> = gpupool.tag("kv cache")`, or
-- during a call: gpupool.tag("kv cache", code, ...) returns what code(...) does. Errors end it too. It follows the
-- thread, not the coroutine: do not yield inside it.
function gpupool.tag(name, code, ...)
  if code == nil then
    core.tag_push(name)
    return setmetatable({}, scope)
  end
  local tag <close> = gpupool.tag(name) -- luacheck: ignore
  return code(...)
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
