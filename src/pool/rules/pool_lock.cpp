// SPDX-License-Identifier: Apache-2.0
#include "pool/rules/pool_lock.hpp"

#include <chrono>
#include <thread>

namespace gpupool::internal {

void PoolMutex::wait_for_turn() const noexcept {
  constexpr int kYields = 16;
  constexpr int kTries = 32;
  constexpr std::chrono::microseconds kPause{20};  // for a waiter of lower priority, or on a busy machine
  const uint32_t turn = turns_.load(std::memory_order_relaxed);
  for (int i = 0; i < kTries && has_waiters() && turns_.load(std::memory_order_relaxed) == turn; ++i) {
    if (i < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

}  // namespace gpupool::internal
