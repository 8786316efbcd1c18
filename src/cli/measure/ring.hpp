// SPDX-License-Identifier: Apache-2.0
// One thread that makes addresses and another that uses them: for `gpupool bench`, and for the comparison
// with other allocators.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <thread>

#include "cli/measure/workers.hpp"

namespace gpupool::cli {

/// Carries addresses from one thread to one other. A side that cannot go on spins, then yields; it gives up
/// when the other side has failed. Each side looks at the other's position only when it must.
class Ring {
 public:
  bool push(uint64_t address) {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    const auto has_room = [&] {
      head_seen_ = head_.load(std::memory_order_acquire);
      return tail - head_seen_ < kSize;
    };
    if (tail - head_seen_ == kSize && !wait(has_room)) return false;
    slots_[tail % kSize] = address;
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  bool pop(uint64_t& address) {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    const auto has_some = [&] {
      tail_seen_ = tail_.load(std::memory_order_acquire);
      return tail_seen_ != head;
    };
    if (tail_seen_ == head && !wait(has_some)) return false;
    address = slots_[head % kSize];
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  void abandon() { is_abandoned_.store(true, std::memory_order_relaxed); }

 private:
  static constexpr size_t kSize = 256;
  static constexpr size_t kCacheLine = 64;
  static constexpr int kSpins = 256;

  template <class Condition>
  bool wait(const Condition& holds) const {
    for (int spins = 0; !holds(); ++spins) {
      if (spins < kSpins) continue;
      if (is_abandoned_.load(std::memory_order_relaxed)) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::array<uint64_t, kSize> slots_{};
  alignas(kCacheLine) std::atomic<uint64_t> head_{0};
  uint64_t tail_seen_ = 0;  // by the side that moves the head
  alignas(kCacheLine) std::atomic<uint64_t> tail_{0};
  uint64_t head_seen_ = 0;  // by the side that moves the tail
  alignas(kCacheLine) std::atomic<bool> is_abandoned_{false};
};

/// One thread calls make() and another use() with what was made, `count` times; each calls enter() before the
/// clock runs. Returns nanoseconds for one.
template <class Enter, class Make, class Use>
double through_ring(uint64_t count, const Enter& enter, const Make& make, const Use& use) {
  Ring ring;
  const auto work = [&](int thread) {
    try {
      for (uint64_t i = 0; i < count; ++i) {
        if (thread == 0) {
          if (!ring.push(make())) return;
        } else {
          uint64_t address = 0;
          if (!ring.pop(address)) return;
          use(address);
        }
      }
    } catch (const std::exception&) {
      ring.abandon();
      throw;
    }
  };
  return time_threads(
             2, [&](int) { enter(); }, work) /
         static_cast<double>(count);
}

/// The yardstick for it: handing addresses over, and nothing else.
inline double time_ring(uint64_t count) {
  return through_ring(
      count, [] {}, [] { return uint64_t{1}; },
      [](uint64_t address) {
        asm volatile("" : : "g"(&address) : "memory");
      });
}

}  // namespace gpupool::cli
