-- SPDX-License-Identifier: Apache-2.0
-- Tests of the Lua binding on the simulated device.
local gpupool = require "gpupool"

local MIB = 1 << 20

local function same(found, expected)
  if found ~= expected then error(("expected %s, found %s"):format(expected, found), 2) end
end

-- The failure that a call throws: a table with this status.
local function fails(status, call, ...)
  local done, failure = pcall(call, ...)
  if done then error("expected " .. status .. ", nothing was thrown", 2) end
  if type(failure) ~= "table" or failure.status ~= "GPUPOOL_ERROR_" .. status then
    error(("expected %s, caught %s"):format(status, failure), 2)
  end
  return failure
end

-- The message of a failure that is no failure of the library.
local function misused(call, ...)
  local done, message = pcall(call, ...)
  if done or type(message) ~= "string" then error("expected a message, found " .. tostring(message), 2) end
  return message
end

local function live(pool) return pool:stats().all.allocated_bytes.current end

local tests = {}

function tests.library()
  assert(gpupool.version() >= 100 and gpupool.version_string():find("^0%."))
  assert(gpupool.features() & gpupool.FEATURE_SIM ~= 0)
  same(gpupool.device_count(gpupool.BACKEND_SIM), 8)
  local info = gpupool.device_info(gpupool.BACKEND_SIM, 1)
  same(info.total_bytes, 150754820096)
  same(math.type(info.total_bytes), "integer")
  same(math.type(info.backend), "integer")
  same(gpupool.status_name(gpupool.ERROR_OVER_LIMIT), "GPUPOOL_ERROR_OVER_LIMIT")
  fails("INVALID_ARGUMENT", gpupool.device_info, gpupool.BACKEND_SIM, 8)
  if gpupool.features() & gpupool.FEATURE_CUDA == 0 then
    fails("UNAVAILABLE", gpupool.device_count, gpupool.BACKEND_CUDA)
  end
  gpupool.set_log(gpupool.LOG_OFF)
end

function tests.addresses()
  local pool <close> = gpupool.open()
  local address = pool:malloc(1000)
  local info = pool:block_info(address + 999)
  same(info.address, address)
  same(info.requested_bytes, 1000)
  same(info.state, gpupool.BLOCK_LIVE)
  same(live(pool), 1024)
  pool:free(address)
  same(pool:malloc(0), 0)
  pool:free(0)
  local aligned = pool:malloc_aligned(512, 2 * MIB)
  same(aligned % (2 * MIB), 0)
  pool:free(aligned, gpupool.STREAM_UNKNOWN)
  same(live(pool), 0)
  local failure = fails("UNKNOWN_POINTER", pool.free, pool, aligned)
  same(failure.code, gpupool.ERROR_UNKNOWN_POINTER)
  same(failure.driver_code, 0)
  same(tostring(failure), "GPUPOOL_ERROR_UNKNOWN_POINTER: " .. failure.message)
  assert(fails("UNKNOWN_POINTER", pool.free, pool, -512).message:find("0xfffffffffffffe00", 1, true))
  assert(not pcall(pool.malloc, pool, -1))
  fails("INVALID_ARGUMENT", pool.malloc_aligned, pool, 1, 3)
end

function tests.arguments()
  local pool <close> = gpupool.open()
  misused(pool.malloc, pool, "1")
  misused(pool.malloc, pool, 1.5)
  misused(pool.malloc, pool, nil)
  misused(pool.malloc, pool)
  misused(pool.malloc, 5)
  misused(pool.malloc, pool, 1, pool)
  misused(pool.malloc, pool, 1, "stream")
  misused(pool.set_oom_handler, pool, 5)
  pool:free(pool:malloc(2 ^ 10))
end

function tests.blocks()
  local pool <close> = gpupool.open()
  do
    local block <close> = pool:allocate(1000)
    block:fill(9)
    block:write("\1\0\255", 100)
    same(block:read(100, 3), "\1\0\255")
    same(#block:read(), 1000)
    same(block:read(999), "\9")
    same(block:read(1000), "")
    fails("INVALID_ARGUMENT", block.write, block, "abc", 998)
    fails("INVALID_ARGUMENT", block.read, block, 0, 1001)
    fails("INVALID_ARGUMENT", block.read, block, -1, 2)
    misused(block.write, block, nil)
    local copy = pool:allocate(1000)
    pool:copy(copy:address(), block:address(), 1000)
    pool:fill(copy:address(), 7, 10)
    same(copy:read(9, 2), "\7\9")
    copy:free()
    assert(copy:is_freed())
    fails("UNKNOWN_POINTER", copy.free, copy)
    fails("INVALID_ARGUMENT", copy.address, copy)
    fails("INVALID_ARGUMENT", copy.read, copy)
    copy:close()
  end
  same(live(pool), 0)
  local given = pool:allocate(1)
  pool:free(given:release())
  fails("INVALID_ARGUMENT", given.release, given)
  pool:validate()
end

function tests.streams()
  local pool <close> = gpupool.open()
  local stream = pool:create_stream()
  do
    local block <close> = pool:allocate(MIB, stream, 4096)
    same(block:stream(), stream:id())
    block:record_stream(0)
    pool:record_stream(block:address(), 0)
    block:free(gpupool.STREAM_UNKNOWN)
  end
  stream:synchronize()
  pool:synchronize_stream(stream)
  pool:synchronize()
  pool:park_stream(stream)
  pool:release_stream(stream)
  stream:close()
  stream:close()
  assert(stream:is_closed())
  fails("INVALID_ARGUMENT", stream.id, stream)
  fails("INVALID_ARGUMENT", pool.malloc, pool, 1, stream)
  fails("INVALID_ARGUMENT", pool.release_stream, pool, gpupool.STREAM_UNKNOWN)
  local closed <close> = pool:create_stream()
  local left = pool:allocate(512, closed)
  closed:close()
  fails("INVALID_ARGUMENT", left.read, left)
  fails("INVALID_ARGUMENT", left.fill, left, 1)
  left:free()
end

function tests.limits()
  local pool <close> = gpupool.open { backend = "sim", limit_bytes = 64 * MIB }
  assert(fails("OVER_LIMIT", pool.malloc, pool, 65 * MIB).message:find("limit"))
  pool:reserve(16 * MIB)
  assert(pool:stats().all.reserved_bytes.current >= 16 * MIB)
  assert(pool:trim(2 * MIB) > 0)
  pool:empty()
  same(pool:stats().all.reserved_bytes.current, 0)
  pool:set_limit(128 * MIB)
  same(pool:stats().limit_bytes, 128 * MIB)
  pool:set_fraction(0.5)
  same(pool:stats().limit_bytes, 150754820096 // 2)
  fails("INVALID_ARGUMENT", pool.set_fraction, pool, 0 / 0)
  pool:reset_peaks()
  same(pool:stats().all.reserved_bytes.peak, 0)
end

function tests.handlers()
  local pool <close> = gpupool.open { backend = "sim", limit_bytes = 64 * MIB }
  local cache = pool:allocate(60 * MIB)
  local asked = {}
  pool:set_oom_handler(function(size, attempt)
    asked[#asked + 1] = size
    cache:close()
    return attempt < 2
  end)
  collectgarbage()
  pool:allocate(32 * MIB):free()
  same(#asked, 1)
  same(asked[1], 32 * MIB)
  local thrown = {}
  pool:set_oom_handler(function() error(thrown) end)
  same(select(2, pcall(pool.malloc, pool, 65 * MIB)), thrown)
  pool:set_oom_handler(coroutine.yield)
  assert(misused(coroutine.wrap(pool.malloc), pool, 65 * MIB):find("yield"))
  -- A malloc of a coroutine is the program's, too.
  pool:set_oom_handler(function() error("from the handler", 0) end)
  same(misused(coroutine.wrap(pool.malloc), pool, 65 * MIB), "from the handler")
  pool:set_oom_handler(function() fails("INVALID_ARGUMENT", pool.close, pool) end)
  fails("OVER_LIMIT", pool.malloc, pool, 65 * MIB)
  pool:set_oom_handler(nil)
  fails("OVER_LIMIT", pool.malloc, pool, 65 * MIB)
end

function tests.watching()
  local pool <close> = gpupool.open()
  local block <close> = pool:allocate(3 * MIB)
  local snapshot = gpupool.snapshot(pool)
  local addresses = {}
  for _, each in ipairs(snapshot.blocks) do
    if each.state == gpupool.BLOCK_LIVE then addresses[#addresses + 1] = each.address end
  end
  same(#addresses, 1)
  same(addresses[1], block:address())
  assert(snapshot.segments[1].size_bytes > 0)
  assert(pool:report():find("1 live block", 1, true))
  same(pool:stats().large.allocated_blocks.current, 1)
  assert(pool:stats().driver.create.count > 0)
end

function tests.closing()
  local pool = gpupool.open()
  local block = pool:allocate(MIB)
  local stream = pool:create_stream()
  pool:close()
  pool:close()
  assert(pool:is_closed())
  assert(fails("INVALID_ARGUMENT", pool.malloc, pool, 1).message:find("closed"))
  fails("INVALID_ARGUMENT", pool.stats, pool)
  fails("INVALID_ARGUMENT", pool.allocate, pool, 1)
  fails("INVALID_ARGUMENT", pool.create_stream, pool)
  fails("INVALID_ARGUMENT", pool.set_oom_handler, pool, print)
  fails("INVALID_ARGUMENT", block.read, block)
  fails("INVALID_ARGUMENT", stream.synchronize, stream)
  stream:close()
  block:free()
end

function tests.collecting()
  do
    local pool <close> = gpupool.open()
    for _ = 1, 100 do pool:allocate(1000, pool:create_stream()) end
    collectgarbage()
    collectgarbage()
    same(live(pool), 0)
    local stat = pool:stats().all.allocated_bytes
    collectgarbage()
    same(stat.current, 0)
  end
  -- A pool, and a stream, that are dropped before their block.
  local block = (function()
    local pool = gpupool.open()
    return pool:allocate(100, pool:create_stream())
  end)()
  collectgarbage()
  block:write("a")
  block:free()
end

function tests.shared_pool()
  local first, second = gpupool.Pool.shared(), gpupool.Pool.shared(0)
  local address = first:malloc(512)
  first:close()
  fails("INVALID_ARGUMENT", first.malloc, first, 1)
  second:free(address)
  fails("INVALID_ARGUMENT", gpupool.Pool.shared, 99)
end

function tests.options()
  local options = { backend = "sim", device = 2, capture_aware = true, peers = { 3, 4 }, mode = "vmm", kind = "device" }
  local pool <close> = gpupool.open(options)
  same(pool:stats().device, 2)
  fails("INVALID_ARGUMENT", gpupool.open, { backend = "sim", peers = { 99 } })
  fails("INVALID_ARGUMENT", gpupool.open, { fraction = 2.0 })
  assert(misused(gpupool.open, { limit = 5 }):find("unknown option \"limit\"", 1, true))
  assert(misused(gpupool.open, { backend = "abacus" }):find("abacus", 1, true))
end

function tests.simulated_device()
  local device = 5
  gpupool.sim_configure(device, { capacity_bytes = 64 * MIB })
  local pool <close> = gpupool.open { backend = "sim", device = device }
  fails("INVALID_ARGUMENT", gpupool.sim_configure, device)
  fails("OUT_OF_MEMORY", pool.malloc, pool, 65 * MIB)
  pool:empty()
  gpupool.sim_script(device, "create:*=error")
  fails("DRIVER", pool.malloc, pool, MIB)
  gpupool.sim_script(device, "")
  fails("INVALID_ARGUMENT", gpupool.sim_script, device, "nonsense")
  local stream = pool:create_stream()
  gpupool.sim_capture(device, stream, true)
  gpupool.sim_capture(device, stream, false)
  same(gpupool.sim_faults(device), 0)
  gpupool.sim_advance(device, 1000)
  fails("DRIVER", gpupool.sim_work, device, stream, 512, 512, 1000)
  same(gpupool.sim_faults(device), 1)
  assert(gpupool.sim_last_fault(device) ~= "")
end

local count = 0
for name, test in pairs(tests) do
  local passed, problem = xpcall(test, function(failure) return debug.traceback(tostring(failure), 2) end)
  if not passed then
    io.stderr:write(("%s: %s\n"):format(name, problem))
    os.exit(1)
  end
  count = count + 1
end
print(("Lua: %d tests passed"):format(count))
