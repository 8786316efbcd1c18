// SPDX-License-Identifier: Apache-2.0
// Blocks that each have a mapping of their own, removed once the stream has passed. An access later than
// that, or beyond a block's end, faults at once.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/no_copy.hpp"
#include "device/device.hpp"
#include "pool/rules/pool_lock.hpp"

namespace gpupool::internal {

struct Chunk;
struct Range;
struct PoolState;
struct StreamState;

/// Guarded by the pool's lock.
class Fences : NoCopy {
 public:
  explicit Fences(PoolState& pool) : pool_(pool) {}

  /// Makes a live block that nobody owns yet, as Heap::allocate does. If it throws std::bad_alloc, nothing
  /// has changed.
  Status allocate(StreamState& state, uint64_t bytes, uint64_t alignment, Range*& block);

  /// Retires a freed block that only its own stream still uses.
  void retire(Range& block) noexcept;
  /// Unmaps the retired blocks that their streams have passed. Waits for nothing.
  void sweep() noexcept;
  /// At the pool's end: releases the addresses too.
  void end() noexcept;

  /// Fenced blocks that are live, or still mapped.
  size_t count() const noexcept { return count_; }

 private:
  /// Addresses behind each block that are never backed: an access up to that far beyond the end faults.
  static constexpr uint64_t kGuard = uint64_t{32} << 20;
  /// How many freed addresses are kept from all other use: in ranges, and in bytes.
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

  PoolState& pool_;
  size_t count_ = 0;
  std::vector<Closing> closing_;  // has room for all that are live
  std::deque<Addresses> old_;
  uint64_t old_bytes_ = 0;
};

}  // namespace gpupool::internal
