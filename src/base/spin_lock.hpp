// SPDX-License-Identifier: Apache-2.0
// A lock for a few instructions' work, that one thread takes almost always.
#pragma once

#include <atomic>

namespace gpupool::internal {

/// Uncontended: one atomic exchange to lock, one plain store to unlock. Meets std::lock_guard's needs.
/// Never held across a driver call, a callback, or anything else that can block. Who waits long sleeps in
/// between, so that the holder can run even where the one who waits has a higher priority and the only core.
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

/// Holds a SpinLock for a scope. Core uses it, which may not see <mutex> and the locks of the system in it.
class SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) noexcept : lock_(lock) { lock_.lock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;
  ~SpinGuard() { lock_.unlock(); }

 private:
  SpinLock& lock_;
};

}  // namespace gpupool::internal
