// SPDX-License-Identifier: Apache-2.0
// A lock for a few instructions, which is almost always taken by the same thread.
#pragma once

#include <atomic>

#include "base/no_copy.hpp"

namespace gpupool::internal {

/// Some 50 ns for whoever waits for another core: it takes little of what threads on the same core share.
void cpu_relax() noexcept;

/// Uncontended: one atomic exchange to lock, one plain store to unlock. Works with std::lock_guard. Never
/// held across a driver call, a callback, or anything else that can block. A long waiter sleeps in between,
/// so the holder can run even if the waiter has a higher priority and the only core.
class SpinLock {
 public:
  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      lock_contended();
  }

  bool try_lock() noexcept { return !locked_.exchange(true, std::memory_order_acquire); }

  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  bool is_locked() const noexcept { return locked_.load(std::memory_order_relaxed); }
  [[gnu::noinline, gnu::cold]] void lock_contended() noexcept;

  std::atomic<bool> locked_{false};
};

/// Holds a SpinLock for a scope. For core, which must not include <mutex> and its system locks.
class SpinGuard : NoCopy {
 public:
  explicit SpinGuard(SpinLock& lock) noexcept : lock_(lock) { lock_.lock(); }
  ~SpinGuard() { lock_.unlock(); }

 private:
  SpinLock& lock_;
};

}  // namespace gpupool::internal
