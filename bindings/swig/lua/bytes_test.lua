-- SPDX-License-Identifier: Apache-2.0
-- Tests of everything that moves bytes in Lua: slices, and copies that nobody waits for.
local gpupool = require "gpupool"

local function same(found, expected)
  if found ~= expected then error(("expected %s, found %s"):format(expected, found), 2) end
end

local function refused(words, call, ...)
  local done, failure = pcall(call, ...)
  if done then error("nothing was refused", 2) end
  local message = type(failure) == "table" and failure.message or failure
  if not message:find(words, 1, true) then error(("expected %s, found %s"):format(words, message), 2) end
end

local function live(pool) return pool:stats().all.allocated_blocks.current end

local function slices()
  local pool <close> = gpupool.open()
  local block = pool:allocate(100)
  block:fill(1)
  local middle = block:slice(10, 20)
  same(middle:address(), block:address() + 10)
  same(middle:size(), 20)
  middle:fill(2)
  do
    local inner <close> = middle:slice(5, 5)
    same(inner:offset(), 15)
    inner:write("ab")
    same(block:read(13, 5), "\2\2ab\2")
    refused("6 bytes at offset 15 are not inside a block of 20 bytes", middle.slice, middle, 15, 6)
    -- Slices keep a block that is freed.
    block:free()
    middle:close()
    same(live(pool), 1)
    same(inner:read(0, 1), "a")
    refused("the slice is closed", middle.read, middle)
    same(tostring(middle), "slice of 20 bytes: closed")
  end
  same(live(pool), 0)
end

local function transfers()
  local pool <close> = gpupool.open()
  local stream = pool:create_stream()
  local block = pool:allocate(1000, stream)
  local sent = block:write_async("bytes", 500)
  local got = block:read_async(501, 3)
  block:free()
  same(live(pool), 1)
  same(got:is_done(), false)
  same(got:read(), "yte")
  same(got:is_done(), true)
  refused("this transfer brings no bytes to the host", sent.read, sent)
  same(live(pool), 0)
  local one <close> = pool:allocate(8, stream)
  local other <close> = pool:allocate(8, stream)
  one:fill(3)
  other:fill(0)
  do
    local part <close> = one:slice(0, 2)
    local copy <close> = other:copy_from(part, 4)
    same(copy:is_done(), false)
  end
  other:copy_from(one:slice(2, 1)):finish()
  same(other:read(), "\3\0\0\0\3\3\0\0")
  refused("8 bytes at offset 1 are not inside", other.copy_from, other, one, 1)
end

-- Memory that nobody touches takes none of the host's.
local function big()
  local GIB <const> = 1 << 30
  local size <const> = 4 * GIB + 5
  local pool <close> = gpupool.open("sim")
  local block <close> = pool:allocate(size)
  same(block:size(), size)
  same(pool:block_info(block:address() + size - 1).requested_bytes, size)
  same(pool:stats().all.requested_bytes.current, size)
  block:write("end", size - 3)
  block:write_async("ND", size - 2):finish()
  same(block:read(size - 3), "eND")
  same(block:read(2.0 ^ 32 + 2), "eND") -- floats that are whole
  same(block:read_async(size - 3):read(), "eND")
  pool:fill(block:address() + 4 * GIB, 65, 3)
  same(block:read(4 * GIB), "AAAND")
  local tail = block:slice(5, 4 * GIB)
  same(tail:size(), 4 * GIB)
  same(tail:slice(4 * GIB - 2, 2):read(), "ND")
  local other <close> = pool:allocate(size)
  refused("4294967301 bytes at offset 1 are not inside a block of 4294967301 bytes", other.copy_from, other, block, 1)
  refused("4294967302 bytes at offset 0 are not inside a block of 4294967301 bytes", block.read, block, 0, size + 1)
  refused("offset is -1: it must not be negative", block.read, block, -1)
  refused("read: these arguments do not fit", block.read, block, 2.0 ^ 64)
end

slices()
transfers()
big()
collectgarbage()
same(gpupool.sim_faults(0), 0)
print("Lua: slices and transfers passed")
