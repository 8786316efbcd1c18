// SPDX-License-Identifier: Apache-2.0
// Blocks with mappings of their own, which go when their streams have passed: what touches one later, or
// beyond its end, faults at once.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "device/device.hpp"
#include "pool/quiet_lock.hpp"

namespace gpupool::internal {

class Pool;
struct Chunk;
struct Range;
struct StreamState;

/// Guarded by the pool's lock.
class Fences {
 public:
  explicit Fences(Pool& pool) : pool_(pool) {}
  Fences(const Fences&) = delete;
  Fences& operator=(const Fences&) = delete;

  /// A live block that nobody owns yet, as Heap::allocate gives it. Throws std::bad_alloc, and has changed
  /// nothing then.
  Status allocate(StreamState& state, uint64_t bytes, uint64_t alignment, Range*& block);

  /// The block was freed, and no stream but its own uses it any more.
  void retire(Range& block) noexcept;
  /// Unmaps what its stream has passed. Waits for nothing.
  void sweep() noexcept;
  /// The pool's end: gives the addresses back too.
  void end() noexcept;

  /// Fenced blocks that are live, or still mapped.
  size_t count() const noexcept { return count_; }

 private:
  /// Addresses behind each block that are never backed: a step of that many bytes beyond the end is seen.
  static constexpr uint64_t kGuard = uint64_t{32} << 20;
  /// Freed addresses that are kept from all other use: so many ranges, and so many bytes.
  static constexpr size_t kOldRanges = 8192;
  static constexpr uint64_t kOldBytes = uint64_t{1} << 42;

  struct Closing {
    Chunk* chunk;
    uint64_t epoch;
  };
  struct Addresses {
    Address base;
    uint64_t size;
  };

  bool close(const Closing& closing) noexcept;
  void keep_addresses(Addresses old) noexcept;

  Pool& pool_;
  size_t count_ = 0;
  std::vector<Closing> closing_;  // with room for all that are live
  std::deque<Addresses> old_;
  uint64_t old_bytes_ = 0;
};

}  // namespace gpupool::internal
