// SPDX-License-Identifier: Apache-2.0
#include "pool/process/exit_check.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include "pool/pool.hpp"
#include "pool/process/registry.hpp"

namespace gpupool::internal {
namespace {

void check_pools() noexcept {
  try {
    for (const auto& pool : Registry::instance().all()) {
      const Life life = pool->handle()->life.load(std::memory_order_acquire);
      if (life != Life::live && life != Life::destroyed) continue;  // blocks outlive a destroyed pool
      uint64_t count = 0;
      std::string text;
      (void)pool->check(count, text);  // the log has each finding
    }
  } catch (const std::bad_alloc&) {
    // Nobody is left to be told.
  }
}

}  // namespace

void check_pools_at_exit() noexcept {
  static constinit std::atomic<bool> is_asked_for{false};
  if (!is_asked_for.exchange(true)) (void)std::atexit(check_pools);
}

}  // namespace gpupool::internal
