// SPDX-License-Identifier: Apache-2.0
// What samples may cost a process, whatever its pools and threads do.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace gpupool::internal {

/// A share of the processor time. What is spent moves a moment forward, until which all time is paid for;
/// only the last round of time, and what it allows, is left to somebody who has spent nothing.
class SampleBudget {
 public:
  static constexpr uint64_t kShare = 50;         // of the time, two per cent
  static constexpr uint64_t kBurst = 1'000'000;  // ns
  static constexpr uint64_t kRound = kBurst * kShare;

  /// How many nanoseconds have been spent that the time so far does not allow.
  uint64_t owed(uint64_t now_ns) const noexcept {
    const uint64_t paid_ns = paid_ns_.load(std::memory_order_relaxed);
    return (paid_ns - std::min(paid_ns, now_ns)) / kShare;
  }

  /// A sample that took longer than a burst was interrupted, and says nothing of others. Of the first stacks
  /// of a process each is taken once for nothing: a small program's samples are all new.
  void spend(uint64_t now_ns, uint64_t cost_ns, uint32_t stack) noexcept {
    if (is_new(stack)) return;
    const uint64_t least = now_ns - std::min(now_ns, kRound);
    const uint64_t more = (kLongWays + std::min(cost_ns, kBurst)) * kShare;
    uint64_t paid_ns = paid_ns_.load(std::memory_order_relaxed);
    while (!paid_ns_.compare_exchange_weak(paid_ns, std::max(paid_ns, least) + more,
                                           std::memory_order_relaxed)) {
    }
  }

 private:
  static constexpr uint32_t kFreeStacks = 1024;
  /// What is not measured: malloc and free take long ways, 218 ns for both with a stack that takes 60.
  static constexpr uint64_t kLongWays = 150;

  bool is_new(uint32_t stack) noexcept {
    uint32_t newest = newest_.load(std::memory_order_relaxed);
    return stack > newest && stack <= kFreeStacks &&
           newest_.compare_exchange_strong(newest, stack, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> paid_ns_{0};
  std::atomic<uint32_t> newest_{0};  // the stack that was last taken for nothing
};

}  // namespace gpupool::internal
