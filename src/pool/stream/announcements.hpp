// SPDX-License-Identifier: Apache-2.0
// The captures that whoever begins them has announced (gpupool_announce_capture).
#pragma once

#include <atomic>
#include <cstdint>

namespace gpupool::internal {

/// A pool and its children have one together, since their streams are the same. Read with the reader's own
/// pool's lock. Who has begun one then takes each pool's lock once, and so waits for those that read before.
class Announcements {
 public:
  /// Whether a capture may begin, or may be under way, on any stream.
  bool has_any() const noexcept { return open_.load(std::memory_order_relaxed) != 0; }
  void begin() noexcept { open_.fetch_add(1, std::memory_order_relaxed); }
  /// False, with nothing changed, if none is open.
  bool end() noexcept {
    uint64_t open = open_.load(std::memory_order_relaxed);
    while (open != 0 && !open_.compare_exchange_weak(open, open - 1, std::memory_order_relaxed)) {
    }
    return open != 0;
  }

 private:
  std::atomic<uint64_t> open_{0};
};

}  // namespace gpupool::internal
