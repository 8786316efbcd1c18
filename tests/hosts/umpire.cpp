// SPDX-License-Identifier: Apache-2.0
// The real Umpire over a pool: the strategy itself, and Umpire's own strategies on top of it.
#include <gpupool/umpire.hpp>

#include <umpire/strategy/QuickPool.hpp>
#include <umpire/strategy/ThreadSafeAllocator.hpp>

#include <cstring>
#include <string>
#include <vector>

#include "expect.hpp"

namespace {

constexpr std::size_t kSize = 1 << 20;

void strategy(umpire::ResourceManager& manager, umpire::Allocator memory, gpupool_t* pool) {
  auto* ptr = static_cast<unsigned char*>(memory.allocate(kSize));
  expect(block_at(pool, ptr).requested_bytes == kSize, "the memory is the pool's");
  expect(manager.getAllocator(ptr).getName() == "gpupool" && manager.getSize(ptr) == kSize,
         "Umpire knows it");
  auto* other = static_cast<unsigned char*>(memory.allocate(kSize));
  manager.memset(ptr, 7);
  manager.copy(other, ptr);
  expect(other[kSize - 1] == 7, "Umpire's operations reach it");
  expect(memory.getCurrentSize() == 2 * kSize && memory.getActualSize() >= 2 * kSize, "it is counted");
  memory.deallocate(other);
  work_on(0, ptr, kSize);
  memory.deallocate(ptr);
  expect(block_at(pool, memory.allocate(kSize)).requested_bytes == kSize, "a free waits for the device");

  (void)gpupool_set_limit(pool, 16 << 20);
  std::string words;
  try {
    (void)memory.allocate(64 << 20);
  } catch (umpire::out_of_memory_error& error) {
    words = error.what();
  }
  expect(words.find("limit") != std::string::npos, "a shortage is Umpire's error, in words");
  (void)gpupool_set_limit(pool, 0);
}

void pool_on(umpire::Allocator pool) {
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 200; ++i) {
    blocks.push_back(pool.allocate(1000 + 7919 * i));
    std::memset(blocks.back(), 1, 1000);
    if (i % 3 != 2) continue;
    pool.deallocate(blocks.front());
    blocks.erase(blocks.begin());
  }
  for (void* block : blocks) pool.deallocate(block);
  pool.release();
}

}  // namespace

int main() {
  gpupool_t* pool = gpupool::plug::default_pool(0);
  auto& manager = umpire::ResourceManager::getInstance();
  // The simulated device's memory is the host's.
  const gpupool::UmpireMemory source{pool, umpire::Platform::host};
  auto memory = manager.makeAllocator<gpupool::UmpireStrategy>("gpupool", source);
  strategy(manager, memory, pool);
  pool_on(manager.makeAllocator<umpire::strategy::QuickPool>("quick", memory, 4 << 20, 1 << 20));
  pool_on(manager.makeAllocator<umpire::strategy::ThreadSafeAllocator>("safe", memory));
  expect(stats_of(pool).all.allocated_blocks.current == 1, "one is left");
  expect_no_faults();
  memory.release();
  expect(memory.getActualSize() <= 4 << 20, "what is cached goes back");
}
