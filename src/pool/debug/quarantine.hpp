// SPDX-License-Identifier: Apache-2.0
// Freed blocks that may not be reused yet: for debug mode quarantine, or until they have been looked at.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/no_copy.hpp"
#include "core/range.hpp"
#include "pool/debug/block_history.hpp"
#include "pool/debug/inspector.hpp"

namespace gpupool::internal {

/// Blocks leave in the order in which they came. Guarded by the pool's lock.
class Quarantine : NoCopy {
 public:
  /// Holds back `bytes` of blocks; 0: as many as are worth a look.
  Quarantine(uint64_t bytes, BlockHistory& book, Inspector& inspector)
      : bytes_(bytes), history_(book), inspector_(inspector) {}

  /// Blocks wait only until there are enough to look at them together.
  bool is_for_looks() const noexcept { return bytes_ == 0; }
  bool empty() const noexcept { return first_ == nullptr; }

  void add(Range& block) noexcept;
  /// Whether blocks must leave; `used` is the pool's memory.
  bool is_full(uint64_t used) const noexcept;
  /// Lets blocks leave until there is room again, by calling release(block) for each.
  template <typename Release>
  void make_room(Release release) noexcept {
    shrink(bytes_, release);
  }
  template <typename Release>
  void clear(Release release) noexcept {
    shrink(0, release);
  }

  /// Looks at the blocks of a stream now, unless it captures: nothing can be queued on it once it is
  /// released.
  void look_at(Stream stream) noexcept;
  /// Looks at a freed block that need not wait.
  void look_at(BlockRecord& life, StreamState& state) noexcept;

 private:
  /// The most blocks that wait for a look, and the part of the pool's memory that they may have.
  static constexpr size_t kMostWaiting = kLooksAtOnce - 2;
  static constexpr uint64_t kWaitingParts = 64;
  static constexpr uint64_t kWaitingAlways = uint64_t{64} << 20;

  template <typename Release>
  void shrink(uint64_t bytes, Release release) noexcept {
    while (held_ > bytes) {
      const Range* end = look_at_oldest(bytes);
      while (first_ != end) release(take());
    }
  }
  const Range* look_at_oldest(uint64_t bytes) noexcept;
  void add_looks(BlockRecord& life, Looks& looks) const noexcept;
  Range& take() noexcept;

  const uint64_t bytes_;
  BlockHistory& history_;
  Inspector& inspector_;
  Range* first_ = nullptr;  // through Range::link
  Range* last_ = nullptr;
  uint64_t held_ = 0;  // their bytes
  size_t count_ = 0;
};

}  // namespace gpupool::internal
