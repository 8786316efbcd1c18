// SPDX-License-Identifier: Apache-2.0
// A pool of Umpire that takes its memory from a pool of gpupool. Link umpire, gpupool.
#include <gpupool/umpire.hpp>

#include <umpire/strategy/QuickPool.hpp>

#include <cstdio>

int main() {
  auto& manager = umpire::ResourceManager::getInstance();
  const gpupool::UmpireMemory source{gpupool::plug::default_pool(0)};
  auto memory = manager.makeAllocator<gpupool::UmpireStrategy>("gpupool", source);
  auto pool = manager.makeAllocator<umpire::strategy::QuickPool>("quick", memory, 64 << 20, 16 << 20);
  void* ptr = pool.allocate(1 << 20);
  std::printf("%p is of the GPU; gpupool holds %zu bytes\n", ptr, memory.getActualSize());
  pool.deallocate(ptr);
  pool.release();
}
