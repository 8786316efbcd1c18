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

/// Whoever holds the lock under which a live or cached block changes: a thread's cache. So aligned that a
/// tag leaves room beside a pointer to it.
struct alignas(8192) BlockOwner {};

/// What a range is, in one word, so that one load tells it and one comparison tells whether it has changed:
/// the state, and beside it, of a block, whose it is and some more; of a free range, a link of its index.
///
///     bits     0 to 2   3               4 to 12                   above
///     a block  state    is it shared    bytes not asked for       its owner
///     others   state    0               0, then from bit 6 on:    the range before it in its index
class Tag {
 public:
  Tag() = default;
  static Tag of(State state) noexcept { return Tag(static_cast<uintptr_t>(state)); }
  static Tag of_block(State state, const BlockOwner* owner, uint64_t unasked) noexcept {
    return Tag(reinterpret_cast<uintptr_t>(owner) + (unasked << kUnaskedShift) +
               static_cast<uintptr_t>(state));
  }

  /// Of a block that nobody owns yet: until somebody does, a free takes the long way.
  static Tag of_new_block() noexcept { return of(State::live).with_shared(true); }

  State state() const noexcept { return static_cast<State>(bits_ & kStateMask); }
  bool is_block() const noexcept { return (bits_ & kStateMask) - 1 < 3; }
  bool is_shared() const noexcept { return (bits_ & kShared) != 0; }
  /// Live, owned, and used by no stream but its own.
  bool is_plain_live() const noexcept {
    return (bits_ & (kStateMask | kShared)) == static_cast<uintptr_t>(State::live);
  }
  /// Of a block.
  uint64_t unasked() const noexcept { return bits_ >> kUnaskedShift & (kUnit - 1); }
  BlockOwner* owner() const noexcept { return reinterpret_cast<BlockOwner*>(bits_ & ~kBlockMask); }

  Tag with(State state) const noexcept { return Tag((bits_ & ~kStateMask) | static_cast<uintptr_t>(state)); }
  /// with(State::cached), of a live block.
  Tag freed() const noexcept { return Tag(bits_ + 1); }
  Tag with_shared(bool shared) const noexcept { return Tag((bits_ & ~kShared) | (shared ? kShared : 0)); }

  friend bool operator==(const Tag&, const Tag&) = default;

 private:
  friend struct Range;
  static constexpr uintptr_t kStateMask = 7;
  static constexpr uintptr_t kShared = 8;
  static constexpr unsigned kUnaskedShift = 4;
  static constexpr uintptr_t kBlockMask = alignof(BlockOwner) - 1;
  static_assert(kUnit << kUnaskedShift == alignof(BlockOwner));
  static_assert(static_cast<int>(State::live) + 1 == static_cast<int>(State::cached));

  explicit Tag(uintptr_t bits) noexcept : bits_(bits) {}

  uintptr_t bits_ = 0;
};

/// One range. From live to cached and back it changes under its owner's lock; everything else, and every
/// other state, under the pool's lock. Records are never given back while the pool lives, so that a thread
/// that looks up a foreign pointer finds a record, though perhaps of another block.
struct alignas(64) Range {
  Address address = 0;
  uint64_t size = 0;
  Heap* heap = nullptr;
  std::atomic<Tag> tag{Tag{}};
  union {
    Range* link = nullptr;  // next in whatever list the state says
    BlockUse* uses;         // of a live or pending block that is shared
  };
  Range* prev = nullptr;  // in address order, within the region
  Range* next = nullptr;
  Region* region = nullptr;

  Address end() const noexcept { return address + size; }
  Tag now() const noexcept { return tag.load(std::memory_order_relaxed); }
  State state() const noexcept { return now().state(); }
  bool is(State wanted) const noexcept { return state() == wanted; }
  void set(Tag wanted) noexcept { tag.store(wanted, std::memory_order_relaxed); }

  /// Blocks stay their owner's; what becomes anything else is nobody's.
  void become(State wanted) noexcept {
    const Tag changed = now().with(wanted);
    set(now().is_block() && changed.is_block() ? changed : Tag::of(wanted));
  }

  /// Null where it is no block, or one that has just been cut from a hole.
  BlockOwner* owner() const noexcept {
    const Tag seen = tag.load(std::memory_order_acquire);
    return seen.is_block() ? seen.owner() : nullptr;
  }

  /// Of a block.
  uint64_t requested() const noexcept { return size - now().unasked(); }
  bool is_shared() const noexcept { return now().is_shared(); }
  void set_shared(bool shared) noexcept { set(now().with_shared(shared)); }

  /// Of a range in a free index.
  Range* link_back() const noexcept {
    return reinterpret_cast<Range*>(now().bits_ & ~uintptr_t{kAlignment - 1});
  }
  void set_link_back(const Range* back) noexcept {
    set(Tag(reinterpret_cast<uintptr_t>(back) | static_cast<uintptr_t>(state())));
  }

 private:
  static constexpr size_t kAlignment = 64;
};
static_assert(sizeof(Range) == 64 && alignof(Range) == 64);

/// Supplies records. Growing is the only thing that may throw, so callers reserve before they change
/// anything.
class RangeStore {
 public:
  /// Makes the next `count` calls of get() safe. Throws std::bad_alloc.
  void reserve(size_t count) {
    while (spare_ < count) {
      slabs_.push_back(std::make_unique<Range[]>(kSlab));
      // Every other record first: processors fetch lines in pairs, and two threads at work on one pair take
      // it from each other, as long as few blocks are in use by each.
      for (const size_t odd : {size_t{1}, size_t{0}}) {
        for (size_t i = kSlab; i != 0; i -= 2) put(&slabs_.back()[i - 2 + odd]);
      }
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
