// SPDX-License-Identifier: Apache-2.0
// The limit on reserved memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpupool {

/// Bytes are taken from the budget before memory is created and put back after it is released, so that
/// reserved memory is never above the limit, by not a byte and in no race.
class Budget {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};

  /// False, and nothing taken, if `bytes` would go over the limit.
  bool take(uint64_t bytes) noexcept {
    uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      const uint64_t limit = limit_.load(std::memory_order_relaxed);
      if (used > limit || bytes > limit - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_acq_rel));
    return true;
  }

  void put(uint64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_acq_rel); }

  /// Sets the limit; false, and nothing changed, if more than that is used.
  bool set_limit(uint64_t limit) noexcept {
    const uint64_t old = limit_.exchange(limit, std::memory_order_acq_rel);
    if (used() <= limit) return true;
    limit_.store(old, std::memory_order_release);
    return false;
  }

  uint64_t used() const noexcept { return used_.load(std::memory_order_acquire); }
  uint64_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
  uint64_t room() const noexcept {
    const uint64_t now = used();
    const uint64_t most = limit();
    return now < most ? most - now : 0;
  }

 private:
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> limit_{kNone};
};

}  // namespace gpupool
