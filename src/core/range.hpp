// SPDX-License-Identifier: Apache-2.0
// Records of address ranges. They live outside the memory they describe, which the host cannot touch.
#pragma once

#include <atomic>
#include <cassert>
#include <memory>
#include <new>
#include <vector>

#include "core/size.hpp"

namespace gpupool::internal {

class Heap;
struct Region;

/// A stream that uses a block beside its own.
struct BlockUse;

/// Whoever holds the lock under which a live or cached block changes: a thread's cache.
struct BlockOwner;

/// What a range of addresses is. Ranges of a region cover it without gaps, in order.
enum class State : uint8_t {
  unused,   // a spare record
  live,     // handed out
  cached,   // freed, kept whole in a thread's cache for the next request of its size
  pending,  // freed, but other streams may still be using it
  hole,     // free, and backed by memory
  bare,     // free, and backed by nothing; whole granules
  retired,  // not free: an old mapping is still there; whole granules
};

/// What a live block can be marked with.
enum Mark : uint8_t {
  kShared = 1,    // other streams use it, as `uses` says
  kSampled = 2,   // the pool's sampler has a record of it
  kRecorded = 4,  // its free goes into a recording
};

/// One range. From live to cached and back it changes under its owner's lock; everything else, and every
/// other state, under the pool's lock. Records are never given back while the pool lives, so that a thread
/// that looks up a foreign pointer finds a record, though perhaps of another block. Records share no pair of
/// cache lines, which processors fetch together: neighbours are handed to different threads. The first line
/// has all that the hot path looks at.
struct alignas(128) Range {
  Address address = 0;
  uint64_t size = 0;
  Heap* heap = nullptr;
  std::atomic<BlockOwner*> owner{nullptr};
  std::atomic<State> state{State::unused};
  /// Marks of a live block: with any of them, a free takes the long way.
  std::atomic<uint8_t> marks{0};
  /// Bytes at the end that were not asked for.
  uint16_t unasked = 0;
  Range* prev = nullptr;  // in address order, within the region
  Range* next = nullptr;
  Range* link = nullptr;       // next in whatever list the state says
  Range* link_back = nullptr;  // previous in a free index
  Region* region = nullptr;
  BlockUse* uses = nullptr;  // of a live or pending block

  uint64_t requested() const noexcept { return size - unasked; }
  void set_requested(uint64_t bytes) noexcept {
    assert(bytes <= size && size - bytes < kUnit);
    unasked = static_cast<uint16_t>(size - bytes);
  }
  Address end() const noexcept { return address + size; }
  bool is(State wanted) const noexcept { return state.load(std::memory_order_relaxed) == wanted; }
  void become(State wanted) noexcept { state.store(wanted, std::memory_order_relaxed); }
  /// Marks change under the owner's lock; a free looks at them without one first.
  bool has_mark(unsigned wanted) const noexcept {
    return (marks.load(std::memory_order_relaxed) & wanted) != 0;
  }
  void add_marks(unsigned more) noexcept {
    marks.store(static_cast<uint8_t>(marks.load(std::memory_order_relaxed) | more),
                std::memory_order_relaxed);
  }
  void drop_marks(unsigned which) noexcept {
    marks.store(static_cast<uint8_t>(marks.load(std::memory_order_relaxed) & ~which),
                std::memory_order_relaxed);
  }
};

/// Supplies records. Growing is the only thing that may throw, so callers reserve before they change
/// anything.
class RangeStore {
 public:
  /// Makes the next `count` calls of get() safe. Throws std::bad_alloc.
  void reserve(size_t count) {
    while (spare_ < count) {
      slabs_.push_back(std::make_unique<Range[]>(kSlab));
      for (size_t i = kSlab; i-- > 0;) put(&slabs_.back()[i]);
    }
  }

  /// The same; false where there is no memory.
  bool try_reserve(size_t count) noexcept {
    try {
      reserve(count);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  Range* get() noexcept {
    assert(free_ != nullptr);
    Range* block = free_;
    free_ = block->link;
    --spare_;
    return block;
  }

  void put(Range* block) noexcept {
    block->become(State::unused);
    block->link = free_;
    free_ = block;
    ++spare_;
  }

  size_t in_use() const noexcept { return slabs_.size() * kSlab - spare_; }
  uint64_t bytes() const noexcept { return slabs_.size() * kSlab * sizeof(Range); }

 private:
  static constexpr size_t kSlab = 256;
  std::vector<std::unique_ptr<Range[]>> slabs_;
  Range* free_ = nullptr;
  size_t spare_ = 0;
};

}  // namespace gpupool::internal
