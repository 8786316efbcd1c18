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

-- The message of a failure that does not come from the library.
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

function tests.logging()
  local lines = {}
  gpupool.set_log(gpupool.LOG_INFO, function(level, message) lines[#lines + 1] = level .. " " .. message end)
  collectgarbage()
  local pool = gpupool.open("sim", "64MiB")
  assert(lines[1]:find("^3 pool "))
  fails("OVER_LIMIT", pool.malloc, pool, 65 * MIB)
  assert(lines[2]:find("^2 GPUPOOL_ERROR_OVER_LIMIT: malloc of 68157440 bytes"))
  pool:close()
  gpupool.set_log(gpupool.LOG_OFF)
  local count = #lines
  gpupool.open():close()
  same(#lines, count)
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
  same(fails("INVALID_ARGUMENT", pool.malloc, pool, -1).message, "size is -1: it must not be negative")
  -- As the README says.
  for shift = 46, 62 do
    fails("OUT_OF_MEMORY", pool.malloc, pool, 1 << shift)
    fails("OUT_OF_MEMORY", pool.allocate, pool, 1 << shift)
  end
  fails("INVALID_ARGUMENT", pool.malloc_aligned, pool, 1, 3)
end

-- A message that has these words, and none of C++ or SWIG.
local function says(words, call, ...)
  local message = misused(call, ...)
  if not message:find(words, 1, true) then error(("%q does not say %q"):format(message, words), 2) end
  for _, foreign in ipairs { "Error in", "binding", "uint64_t", "prototypes", "userdata", "arg 2", "expected" } do
    if message:find(foreign, 1, true) then error(("%q says %q"):format(message, foreign), 2) end
  end
end

-- A field is called as the program writes it, not by the name of a function that sets it.
function tests.fields()
  local config = gpupool.Config()
  for field, wanted in pairs { fraction = "a number", slack = "a number", limit_bytes = "an integer",
    device = "an integer of 32 bits" } do
    local message = misused(function() config[field] = "half" end)
    same(message, ("%s is \"half\": %s is wanted"):format(field, wanted))
  end
  same(misused(gpupool.open, { fraction = {} }):match("^fraction is table: .*: (.*)"), "a number is wanted")
end

function tests.arguments()
  local pool <close> = gpupool.open()
  says("malloc: size is \"1\": an integer is wanted", pool.malloc, pool, "1")
  says("malloc: size is 1.5: an integer is wanted", pool.malloc, pool, 1.5)
  says("malloc: size is nil: an integer is wanted", pool.malloc, pool, nil)
  says("malloc: 0 arguments are there: 1 to 2 are wanted", pool.malloc, pool)
  says("malloc: 0 arguments are there", pool.malloc, 5)
  says("malloc: the object before the colon is 5: a Pool is wanted", pool.malloc, 5, 6)
  says("malloc: stream is pool on sim:0", pool.malloc, pool, 1, pool)
  says("malloc: stream is \"stream\": an integer or a Stream is wanted", pool.malloc, pool, 1, "stream")
  says("set_oom_handler: handler is 5: a function or nil is wanted", pool.set_oom_handler, pool, 5)
  says("set_fraction: fraction is \"half\": a number is wanted", pool.set_fraction, pool, "half")
  says("enable_peer: device is 4294967296: an integer of 32 bits is wanted", pool.enable_peer, pool, 1 << 32)
  says("set_limit: these arguments do not fit: a number of bytes, or a string", pool.set_limit, pool, {})
  says("parse_size: text is nil: a string is wanted", gpupool.parse_size, nil)
  says("device_count: argument 1 is \"sim\": a constant of the module is wanted", gpupool.device_count, "sim")
  says("sim_configure: argument 2 is 5: a SimConfig is wanted", require "gpupool.core".sim_configure, 5, 5)
  fails("INVALID_ARGUMENT", gpupool.set_log, 9)
  says("Pool: these arguments do not fit: nothing, a Config, or strings", gpupool.Pool, 5)
  says("allocate: size is 1.5: an integer is wanted", pool.allocate, pool, 1.5)
  local block <close> = pool:allocate(10)
  says("read: these arguments do not fit: an offset and a length", block.read, block, "all")
  says("write: data is nil: a string is wanted", block.write, block, nil)
  says("fill: value is \"a\": an integer of 32 bits is wanted", block.fill, block, "a")
  pool:free(pool:malloc(2 ^ 10))
end

function tests.words()
  same(gpupool.parse_size("1.5 KiB"), 1536)
  fails("INVALID_ARGUMENT", gpupool.parse_size, "a lot")
  local choice = gpupool.parse_device("sim:3")
  same(choice.backend, gpupool.BACKEND_SIM)
  same(choice.device, 3)
  fails("INVALID_ARGUMENT", gpupool.parse_device, "gpu")
  fails("INVALID_ARGUMENT", gpupool.open, "gpu")
  assert(fails("INVALID_ARGUMENT", gpupool.open, "sim", "lots").message:find('limit is "lots"', 1, true))
  local pool = gpupool.open("sim:1", "64MiB")
  local stream = pool:create_stream()
  local block = pool:allocate(1000, stream)
  same(tostring(pool), "pool on sim:1: 2 MiB of 64 MiB reserved, 1 block live")
  same(tostring(pool:stats()), "2 MiB of 64 MiB reserved, 1 block live")
  same(tostring(block), ("block of 1000 bytes at 0x%x on stream 0x%x"):format(block:address(), stream:id()))
  block:free()
  same(tostring(block), "block of 1000 bytes: freed")
  same(tostring(stream), ("stream 0x%x"):format(stream:id()))
  stream:close()
  same(tostring(stream), "stream: closed")
  pool:set_limit("50%")
  same(pool:stats().limit_bytes, 150754820096 // 2)
  pool:close()
  same(tostring(pool), "pool: closed")
  local quarter <close> = gpupool.open { device = "sim:2", limit = "25%" }
  same(quarter:stats().device, 2)
  same(quarter:stats().limit_bytes, 150754820096 // 4)
  local small <close> = gpupool.open { backend = "sim", limit = MIB }
  same(small:stats().limit_bytes, MIB)
end

function tests.a_device_by_its_number()
  local pool <close> = gpupool.open(1)
  same(pool:stats().device, 1)
  local limited <close> = gpupool.open(2, "8GiB")
  same(limited:stats().device, 2)
  same(limited:stats().limit_bytes, 8 << 30)
  fails("INVALID_ARGUMENT", gpupool.open, 99)
  says("device is 4294967296: an integer of 32 bits is wanted", gpupool.open, 1 << 32)
  says("device is 1.5: an integer of 32 bits is wanted", gpupool.open, 1.5)
  local words <close> = gpupool.open(nil, "8GiB")
  same(words:stats().limit_bytes, 8 << 30)
  says("open: options is true: a table, or a device as a number or a string, is wanted", gpupool.open, true)
  says("open: options is false: a table, or a device", gpupool.open, false)
  says("sim_configure: options is 5: a table is wanted", gpupool.sim_configure, 5, 5)
  says("open: limit stands beside a table, which has its own", gpupool.open, { device = 1 }, "8GiB")
end

function tests.captures()
  local pool <close> = gpupool.open { device = "sim:4", capture_aware = true }
  local stream <close> = pool:create_stream()
  gpupool.sim_capture(4, stream, true)
  local capture = pool:capture_id(stream)
  assert(capture ~= 0)
  pool:free(pool:malloc(MIB, stream), stream)
  fails("INVALID_ARGUMENT", pool.release_capture, pool, capture)
  gpupool.sim_capture(4, stream, false)
  pool:release_capture(capture)
  fails("INVALID_ARGUMENT", pool.release_capture, pool, 0)
  pool:announce_capture(true)
  pool:announce_capture(false)
  fails("INVALID_ARGUMENT", pool.announce_capture, pool, false)
  pool:enable_peer(5)
  fails("INVALID_ARGUMENT", pool.enable_peer, pool, 99)
end

function tests.children()
  local pool <close> = gpupool.open("sim", "16MiB")
  local child <close> = pool:create_child()
  local address = child:malloc(12 << 20)
  fails("OVER_LIMIT", pool.malloc, pool, 8 << 20)
  fails("INVALID_ARGUMENT", child.create_child, child)
  child:free(address)
  child:close()
  pool:free(pool:malloc(8 << 20))
end

function tests.launches()
  gpupool.sim_configure(7, { streams = 2 })
  local pool <close> = gpupool.open { device = "sim:7", capture_aware = true }
  local stream <close> = pool:create_stream()
  local other <close> = pool:create_stream()
  local block <close> = pool:allocate(4, stream)
  block:write("then")
  gpupool.sim_capture(7, stream, true)
  local capture = pool:capture_id(stream)
  gpupool.sim_work(7, stream, block:address(), 4, 1000000)
  block:fill(string.byte("n"))
  fails("INVALID_ARGUMENT", gpupool.sim_launch, 7, capture, other)
  gpupool.sim_capture(7, stream, false)
  same(block:read(), "then")
  gpupool.sim_launch(7, capture, other)
  other:synchronize()
  same(block:read(), "nnnn")
  fails("INVALID_ARGUMENT", gpupool.sim_launch, 7, capture + 1, other)
  same(gpupool.sim_faults(7), 0)
  fails("DRIVER", gpupool.sim_launch, 7, capture, 12345)
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
    same(fails("INVALID_ARGUMENT", block.fill, block, 300).message, "value is 300: a byte is 0 to 255")
    fails("INVALID_ARGUMENT", pool.fill, pool, block:address(), -1, 1)
    same(block:read(0, 1), "\9")
    misused(block.write, block, nil)
    local copy = pool:allocate(1000)
    pool:copy(copy:address(), block:address(), 1000)
    pool:fill(copy:address(), 7, 10)
    same(copy:read(9, 2), "\7\9")
    copy:free()
    assert(copy:is_freed())
    fails("UNKNOWN_POINTER", copy.free, copy)
    fails("UNKNOWN_POINTER", copy.address, copy)
    same(fails("UNKNOWN_POINTER", copy.read, copy).message, "the block has been freed")
    fails("UNKNOWN_POINTER", copy.fill, copy, 1)
    fails("UNKNOWN_POINTER", copy.record_stream, copy, 0)
    copy:close()
  end
  same(live(pool), 0)
  local given = pool:allocate(1)
  pool:free(given:release())
  fails("UNKNOWN_POINTER", given.release, given)
  pool:validate()
end

function tests.streams()
  local pool <close> = gpupool.open()
  local stream = pool:create_stream()
  do
    local other <close> = pool:create_stream()
    local block = pool:allocate(512, stream)
    block:record_stream(other)
    -- A stream that is refused leaves the block as it was.
    fails("INVALID_ARGUMENT", block.free, block, 2)
    assert(not block:is_freed())
    block:free(other)
  end
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
  same(fails("INVALID_ARGUMENT", pool.malloc, pool, 1, stream).message, "the stream is closed")
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
  -- A malloc in a coroutine belongs to the program, too.
  pool:set_oom_handler(function() error("from the handler", 0) end)
  same(misused(coroutine.wrap(pool.malloc), pool, 65 * MIB), "from the handler")
  pool:set_oom_handler(nil)
  fails("OVER_LIMIT", pool.malloc, pool, 65 * MIB)
  -- It may close the stream that the malloc is for, and even the pool that asks it: both end with the malloc.
  local stream = pool:create_stream()
  pool:set_oom_handler(function() stream:close() pool:close() end)
  fails("OVER_LIMIT", pool.allocate, pool, 65 * MIB, stream)
  fails("INVALID_ARGUMENT", pool.malloc, pool, 1)
end

local function sleepers()
  return gpupool.open { backend = "sim", max_chunk_bytes = 2 * MIB }
end

function tests.sleeping()
  local pool <close> = sleepers()
  local blocks = { pool:malloc(4 * MIB), pool:malloc(4 * MIB), pool:malloc(4 * MIB) }
  pool:set_name("some")
  local slept = pool:sleep(gpupool.SLEEP_MODE_SAVE, 0, 5 * MIB)
  same(slept.released_bytes, 8 * MIB)
  same(slept.pools, 0)
  same(pool:sleep_state(), gpupool.SLEEP_STATE_AWAKE)
  same(pool:block_info(blocks[2]).state, gpupool.BLOCK_ASLEEP)
  same(pool:block_info(blocks[3]).state, gpupool.BLOCK_LIVE)
  same(gpupool.sleep_tag("some", gpupool.SLEEP_MODE_DROP, 0, 1 << 40).dropped_bytes, 4 * MIB)
  same(pool:wake().saved_bytes, 8 * MIB)
  fails("INVALID_ARGUMENT", pool.sleep, pool, gpupool.SLEEP_MODE_SAVE, 0, -1)
  for _, block in ipairs(blocks) do pool:free(block) end
end

function tests.backups()
  local pool <close> = sleepers()
  local kept <close> = pool:allocate(4 * MIB)
  local lost <close> = pool:allocate(4 * MIB)
  local bytes = ("0123456789abcde"):rep(4 * MIB // 15 + 1):sub(1, 4 * MIB)
  kept:write(bytes)
  local at = kept:address()
  fails("UNAVAILABLE", pool.read_backup, pool, at)
  pool:set_keep(at, true)
  fails("UNKNOWN_POINTER", pool.set_keep, pool, at + 512, true)
  pool:prepare_backup(6 * MIB)
  assert(pool:stats().backup_bytes >= 6 * MIB)
  fails("INVALID_ARGUMENT", pool.prepare_backup, pool, -1)
  fails("HOST_OUT_OF_MEMORY", pool.prepare_backup, pool, 1 << 60)
  local slept = pool:sleep(gpupool.SLEEP_MODE_DROP)
  same(slept.saved_bytes, 4 * MIB)
  same(slept.dropped_bytes, 4 * MIB)
  assert(pool:read_backup(at) == bytes)
  same(pool:read_backup(at + 100, 10), bytes:sub(101, 110))
  same(pool:read_backup(at, 0), "")
  fails("INVALID_ARGUMENT", pool.read_backup, pool, at + 1, 4 * MIB)
  fails("INVALID_ARGUMENT", pool.read_backup, pool, at, math.maxinteger)
  fails("INVALID_ARGUMENT", pool.read_backup, pool, at, -1)
  says("read_backup: these arguments do not fit: an address and a length, or the address alone is wanted",
    pool.read_backup, pool, "here")
  fails("UNAVAILABLE", pool.read_backup, pool, lost:address())
  fails("UNKNOWN_POINTER", pool.read_backup, pool, 4096)
  pool:wake()
  assert(kept:read() == bytes)
  fails("UNAVAILABLE", pool.read_backup, pool, at)
  pool:set_keep(at, false)
  same(pool:sleep(gpupool.SLEEP_MODE_DROP).saved_bytes, 0)
  pool:wake()
  pool:prepare_backup(0)
  same(pool:stats().backup_bytes, 0)
  local closed = sleepers()
  closed:close()
  fails("INVALID_ARGUMENT", closed.prepare_backup, closed, 1)
  fails("INVALID_ARGUMENT", closed.read_backup, closed, 4096)
end

function tests.sleep_tags()
  local one <close> = sleepers()
  local two <close> = sleepers()
  one:set_name("pair")
  two:set_name("pair")
  same(gpupool.sleep_tag("pair").pools, 2)
  same(gpupool.wake_tag("pair", 1000).pools, 2)
  same(gpupool.wake_tag("pair").pools, 0)
  same(gpupool.wake_tag("nobody's").pools, 0)
  fails("INVALID_ARGUMENT", gpupool.wake_tag, "pair", 0, 1 << 30)
  same(one:sleep_state(), gpupool.SLEEP_STATE_AWAKE)
end

-- A pool that another one needs the memory of, on a device that has room for one of them.
function tests.allowed_sleep()
  gpupool.sim_configure(4, { capacity_bytes = 64 * MIB })
  local idle <close> = gpupool.Pool("sim:4")
  local busy <close> = gpupool.Pool("sim:4")
  local block <close> = idle:allocate(40 * MIB)
  block:write("123")
  fails("OUT_OF_MEMORY", busy.malloc, busy, 40 * MIB)
  fails("INVALID_ARGUMENT", idle.allow_sleep, idle, gpupool.SLEEP_MODE_SAVE, 1 << 30)
  fails("OUT_OF_MEMORY", busy.malloc, busy, 40 * MIB)
  idle:allow_sleep()
  idle:set_sleep_hooks(function() error("from the hook", 0) end)
  local fine, problem = pcall(busy.malloc, busy, 40 * MIB)
  same(fine, false)
  same(problem, "from the hook")
  same(idle:sleep_state(), gpupool.SLEEP_STATE_AWAKE)
  idle:set_sleep_hooks()
  local taken = busy:malloc(40 * MIB)
  same(idle:sleep_state(), gpupool.SLEEP_STATE_ASLEEP)
  busy:free(taken)
  idle:wake()
  same(block:read(0, 3), "123")
  same(busy:stats().all.allocated_bytes.current, 0)
end

function tests.sleep_hooks()
  local pool <close> = sleepers()
  local block = pool:malloc(4 * MIB)
  local calls = {}
  local function called() return table.concat(calls, ", ") end
  pool:set_sleep_hooks(function(address)
    fails("UNAVAILABLE", pool.wake, pool)
    pool:allocate(MIB):close()
    calls[#calls + 1] = "before " .. tostring(address == block)
    return true
  end, function(address)
    calls[#calls + 1] = "after " .. tostring(address == block)
    return true
  end)
  collectgarbage()
  pool:sleep()
  pool:wake()
  pool:sleep_block(block)
  pool:wake_block(block)
  same(called(), "before false, after false, before true, after true")
  pool:set_sleep_hooks(function() return false end)
  fails("UNAVAILABLE", pool.sleep, pool)
  same(pool:sleep(gpupool.SLEEP_MODE_SAVE, 0, 8 * MIB).saved_bytes, 0)
  same(pool:sleep_state(), gpupool.SLEEP_STATE_AWAKE)
  -- What a hook throws is the call's, even if the call succeeds without the block.
  local thrown = {}
  pool:set_sleep_hooks(function() error(thrown) end)
  same(select(2, pcall(pool.sleep, pool)), thrown)
  same(select(2, pcall(pool.sleep, pool, gpupool.SLEEP_MODE_SAVE, 0, 8 * MIB)), thrown)
  same(pool:sleep_state(), gpupool.SLEEP_STATE_AWAKE)
  pool:set_sleep_hooks(nil, function() error(thrown) end)
  pool:sleep()
  same(select(2, pcall(pool.wake, pool)), thrown)
  pool:set_sleep_hooks()
  pool:wake()
  pool:sleep()
  pool:wake()
  same(#calls, 4)
  misused(pool.set_sleep_hooks, pool, 5)
  pool:free(block)
  local closing = sleepers()
  closing:set_sleep_hooks(function() closing:close() return true end)
  closing:sleep()
  fails("INVALID_ARGUMENT", closing.set_sleep_hooks, closing)
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
  local pool = gpupool.open("sim:6")
  local stream = pool:create_stream()
  local block, on_stream = pool:allocate(MIB), pool:allocate(MIB, stream)
  on_stream:fill(7)
  local address = pool:malloc(MIB)
  pool:close()
  pool:close()
  assert(pool:is_closed())
  local function refused(call, ...)
    same(fails("INVALID_ARGUMENT", call, pool, ...).message, "the pool is closed")
  end
  refused(pool.malloc, 1)
  refused(pool.stats)
  refused(pool.allocate, 1)
  refused(pool.create_stream)
  refused(pool.snapshot)
  refused(pool.set_oom_handler, print)
  -- Its streams are closed with it.
  assert(stream:is_closed())
  same(fails("INVALID_ARGUMENT", stream.synchronize, stream).message, "the stream is closed")
  stream:close()
  -- Its blocks are as they were.
  block:write("ab")
  same(block:read(1, 1), "b")
  same(on_stream:read(0, 1), "\7")
  on_stream:fill(8)
  same(on_stream:read(9, 1), "\8")
  block:free()
  on_stream:close()
  -- The pool is there until the last address is freed.
  fails("INVALID_ARGUMENT", gpupool.sim_configure, 6)
  fails("UNKNOWN_POINTER", pool.free, pool, address + 1)
  pool:free(address)
  refused(pool.free, address)
  gpupool.sim_configure(6)
  same(gpupool.sim_faults(6), 0)
end

function tests.tags()
  local pool <close> = gpupool.open { backend = "sim" }
  gpupool.tag_push("weights")
  gpupool.tag_push("kv cache")
  local address = pool:malloc(512 * MIB)
  gpupool.tag_pop()
  local block = pool:allocate(256 * MIB)
  gpupool.tag_pop()
  fails("INVALID_ARGUMENT", gpupool.tag_pop)
  local holders = pool:holders()
  same(holders:count(), 2)
  same(holders:holder(0).tag, "kv cache")
  same(holders:holder(1).tag, "weights")
  block:free()
  pool:free(address)
  same(pool:holders():count(), 0)
  fails("INVALID_ARGUMENT", gpupool.tag_push, "")
end

function tests.recording()
  local path = os.tmpname()
  os.remove(path)
  gpupool.record_start(path, 0)
  fails("INVALID_ARGUMENT", gpupool.record_start, path .. "2", 0)
  gpupool.mark("step 12")
  gpupool.record_stop()
  fails("INVALID_ARGUMENT", gpupool.record_stop)
  gpupool.mark("nobody listens")
  local file <close> = io.open(path, "rb")
  assert(file:read("a"):find("step 12", 1, true))
  fails("INVALID_ARGUMENT", gpupool.record_start, path, 0)
  os.remove(path)
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
  -- A pool and a stream are dropped before their block.
  local block = (function()
    local pool = gpupool.open()
    return pool:allocate(100, pool:create_stream())
  end)()
  collectgarbage()
  block:write("a")
  block:free()
end

-- How often the collector runs from now on: a function that returns it.
local function collections()
  local count = 0
  local function watch()
    setmetatable({}, { __gc = function()
      count = count + 1
      watch()
    end })
  end
  watch()
  return function() return count end
end

function tests.collecting_before_out_of_memory()
  collectgarbage()
  collectgarbage("stop")
  local count = collections()
  local pool <close> = gpupool.open { backend = "sim", limit_bytes = 64 * MIB }
  -- The collector runs only when a malloc would fail.
  for _ = 1, 64 do pool:allocate(MIB) end
  same(count(), 0)
  for _ = 1, 9 * 64 do pool:allocate(MIB) end
  same(count(), 9)
  pool:free(pool:malloc(48 * MIB))
  same(count(), 10)
  pool:malloc_aligned(16 * MIB, 2 * MIB)

  -- What is reachable stays. The collector finds nothing, so the failure is the first one.
  local kept = pool:allocate(16 * MIB)
  collectgarbage()
  local attempts = {}
  pool:set_oom_handler(function(_, attempt)
    attempts[#attempts + 1] = attempt
    return attempt < 2
  end)
  local failed = pool:stats().failed_mallocs
  local before = count()
  assert(fails("OVER_LIMIT", pool.allocate, pool, 33 * MIB).message:find("^malloc of 34603008 bytes"))
  same(table.concat(attempts, " "), "1 2")
  same(pool:stats().failed_mallocs, failed + 1)
  same(count(), before + 1)
  assert(not kept:is_freed())
  -- Nor does it run when the handler helps, or throws.
  pool:set_oom_handler(function()
    kept:close()
    return true
  end)
  pool:malloc(33 * MIB)
  pool:set_oom_handler(function() error("from the handler") end)
  assert(misused(pool.malloc, pool, 65 * MIB):find("from the handler"))
  same(count(), before + 1)
  collectgarbage("restart")
end

-- A child keeps what it has mapped, even while that is free.
function tests.collecting_children_before_out_of_memory()
  local pool <close> = gpupool.open { backend = "sim", limit_bytes = 64 * MIB }
  do
    local forgotten = pool:create_child()
    forgotten:free(forgotten:malloc(48 * MIB))
  end
  pool:free(pool:malloc(48 * MIB))
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
  says("unknown option \"limits\"", gpupool.open, { limits = 5 })
  says("gpupool: backend is \"abacus\": one of \"auto\", \"cuda\", \"host\", \"sim\" is wanted", gpupool.open,
    { backend = "abacus" })
  says("limit_bytes is \"8GiB\": an integer is wanted", gpupool.open, { limit_bytes = "8GiB" })
end

function tests.blocks_between_processes()
  local pool <close> = gpupool.open { backend = "sim" }
  local other <close> = gpupool.open { backend = "sim" }
  local address = pool:malloc(3 * MIB)
  local handle = pool:export_block(address)
  local block = other:import_block(handle)
  same(block.allocated_bytes, 3 * MIB)
  pool:free(address)
  same(pool:stats().all.active_bytes.current, 3 * MIB)
  other:close_import(block.address)
  same(pool:stats().all.active_bytes.current, 0)
  fails("UNKNOWN_POINTER", other.close_import, other, block.address)
  fails("UNAVAILABLE", other.import_block, other, handle)
  fails("INVALID_ARGUMENT", other.import_block, other, "gpupool")
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
