# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# Allocate, use, free, and see what the pool did. Runs on a GPU or, without one, on the simulated device.
require "gpupool"

puts "on #{GpuPool.device_info(GpuPool::BACKEND_AUTO, 0).name}"
GpuPool::Pool.open(limit_bytes: 1 << 30) do |pool|
  stream = pool.create_stream
  sent = "there and back"
  pool.allocate(1 << 20, stream) do |here|
    pool.allocate(1 << 20, stream) do |there|
      here.write(sent)
      pool.copy(there.address, here.address, here.size, stream)
      puts there.read(0, sent.bytesize)
    end
  end
  begin
    pool.malloc(2 << 30)
  rescue GpuPool::OutOfMemoryError => e
    puts "no room: #{e.message}"
  end
  puts "live peak #{pool.stats.all.allocated_bytes.peak}"
end
