// SPDX-License-Identifier: Apache-2.0
// The limit on reserved memory.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/spin_lock.hpp"

namespace gpupool::internal {

/// Bytes are taken from the budget before memory is created and put back after it is released, so that
/// reserved memory is never above the limit, by not a byte and in no race.
class Budget {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};

  /// False, and nothing taken, if `bytes` would go over the limit.
  bool take(uint64_t bytes) noexcept {
    const SpinGuard lock(lock_);
    if (bytes > room()) return false;
    used_.store(used() + bytes, std::memory_order_release);
    return true;
  }

  void put(uint64_t bytes) noexcept {
    const SpinGuard lock(lock_);
    used_.store(used() - bytes, std::memory_order_release);
  }

  /// Sets the limit; false, and nothing changed, if more than that is used.
  bool set_limit(uint64_t limit) noexcept {
    const SpinGuard lock(lock_);
    if (used() > limit) return false;
    limit_.store(limit, std::memory_order_release);
    return true;
  }

  // These take no lock.

  uint64_t used() const noexcept { return used_.load(std::memory_order_acquire); }
  uint64_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
  uint64_t room() const noexcept {
    const uint64_t now = used();
    const uint64_t most = limit();
    return now < most ? most - now : 0;
  }

 private:
  SpinLock lock_;  // for changes: the limit and what is used must be looked at together
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> limit_{kNone};
};

}  // namespace gpupool::internal
