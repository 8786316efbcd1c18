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

void check_live_pools() noexcept {
  try {
    for (const auto& pool : Registry::instance().all()) {
      if (pool->handle()->life.load(std::memory_order_acquire) != Life::live) continue;
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
  if (!is_asked_for.exchange(true)) (void)std::atexit(check_live_pools);
}

}  // namespace gpupool::internal
