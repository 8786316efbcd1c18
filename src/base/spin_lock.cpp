// SPDX-License-Identifier: Apache-2.0
#include "base/spin_lock.hpp"

#include <thread>

namespace gpupool {
namespace {

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

/// Spins for about the time that a holder needs, then lets it run: it may have lost its core.
void SpinLock::lock_contended() noexcept {
  for (unsigned spins = 0;; ++spins) {
    while (locked_.load(std::memory_order_relaxed)) {
      if (++spins > 200) {
        std::this_thread::yield();
      } else {
        pause();
      }
    }
    if (try_lock()) return;
  }
}

}  // namespace gpupool
