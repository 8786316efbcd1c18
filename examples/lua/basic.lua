-- SPDX-License-Identifier: Apache-2.0
-- Allocate, use, free, and see what the pool did. Runs on a GPU or, without one, on the simulated device.
local gpupool = require "gpupool"

print("on " .. gpupool.device_info(gpupool.BACKEND_AUTO, 0).name)
local pool <close> = gpupool.open { limit_bytes = 1 << 30 }
local stream = pool:create_stream()
local sent = "there and back"
do
  local here <close> = pool:allocate(1 << 20, stream)
  local there <close> = pool:allocate(1 << 20, stream)
  here:write(sent)
  pool:copy(there:address(), here:address(), here:size(), stream)
  print(there:read(0, #sent))
end
local fits, failure = pcall(pool.malloc, pool, 2 << 30)
if not fits and failure.status == "GPUPOOL_ERROR_OVER_LIMIT" then print("no room: " .. failure.message) end
print("live peak " .. pool:stats().all.allocated_bytes.peak)
