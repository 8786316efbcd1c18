// SPDX-License-Identifier: Apache-2.0
// What samples may cost a process, whatever its pools and threads do.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace gpupool::internal {

/// A share of the time that the process was busy. What is spent moves a moment forward, until which all time
/// is paid for; only the last round of time, and what it allows, is left to somebody who has spent nothing. A
/// process that has just begun has less.
class SampleBudget {
 public:
  static constexpr uint64_t kShare = 50;         // of the time, two per cent
  static constexpr uint64_t kBurst = 1'000'000;  // ns
  static constexpr uint64_t kRound = kBurst * kShare;
  static constexpr uint32_t kFreeStacks = 64;

  /// How many nanoseconds have been spent that the time so far does not allow.
  uint64_t owed(uint64_t now_ns) const noexcept {
    const uint64_t paid_ns = paid_ns_.load(std::memory_order_relaxed);
    return (paid_ns - std::min(paid_ns, now_ns)) / kShare;
  }

  /// A sample that took longer than a burst was interrupted, and says nothing of others. Each of the first
  /// few stacks of a process is taken once for nothing: a small program's samples are all new.
  void spend(uint64_t now_ns, uint64_t cost_ns, uint32_t stack) noexcept {
    if (!is_new(stack)) pay(now_ns, kLongWays + std::min(cost_ns, kBurst));
  }
  /// A malloc reached a mark that went.
  void spend_on_pass(uint64_t now_ns) noexcept { pay(now_ns, kPass); }

  /// Whether a pool may draw the marks of so many caches anew, some thousand of each of which have to be
  /// reached before they are rare again. That is for one pool at a time, and for so much time, whatever
  /// number of pools there are.
  bool take_turn(uint64_t now_ns, uint64_t caches) noexcept {
    uint64_t turn_ns = turn_ns_.load(std::memory_order_relaxed);
    return now_ns >= turn_ns &&
           turn_ns_.compare_exchange_strong(turn_ns, now_ns + caches * kRound, std::memory_order_relaxed);
  }

 private:
  /// What is not measured: malloc and free take long ways, 218 ns for both with a stack that takes 60.
  static constexpr uint64_t kLongWays = 150;
  static constexpr uint64_t kPass = 80;  // the malloc's long way alone

  void pay(uint64_t now_ns, uint64_t cost_ns) noexcept {
    const uint64_t least = now_ns - std::min(now_ns, kRound);
    uint64_t paid_ns = paid_ns_.load(std::memory_order_relaxed);
    while (!paid_ns_.compare_exchange_weak(paid_ns, std::max(paid_ns, least) + cost_ns * kShare,
                                           std::memory_order_relaxed)) {
    }
  }

  bool is_new(uint32_t stack) noexcept {
    uint32_t newest = newest_.load(std::memory_order_relaxed);
    return stack > newest && stack <= kFreeStacks &&
           newest_.compare_exchange_strong(newest, stack, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> paid_ns_{0};
  std::atomic<uint64_t> turn_ns_{0};
  std::atomic<uint32_t> newest_{0};  // the stack that was last taken for nothing
};

}  // namespace gpupool::internal
