// SPDX-License-Identifier: Apache-2.0
#include "base/spin_lock.hpp"

#include "os/clock.hpp"

namespace gpupool::internal {
namespace {

// A holder needs far fewer than 200 pauses, unless it has lost its core. Then it may be a while until it runs
// again.
constexpr unsigned kSpins = 200;
constexpr uint32_t kRestNanoseconds = 50'000;

/// Gives the core to another thread. A mere yield would return at once if the caller is a real-time thread
/// and the holder is not. Waiting on the lock itself would need an exchange in unlock().
void rest() noexcept {
  os::rest(kRestNanoseconds);
}

}  // namespace

void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void SpinLock::lock_contended() noexcept {
  for (unsigned spins = 0; !try_lock();) {
    for (; is_locked(); ++spins) spins < kSpins ? cpu_relax() : rest();
  }
}

}  // namespace gpupool::internal
