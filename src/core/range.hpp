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

/// A stream that uses a block besides the block's own.
struct BlockUse;

/// What a range of addresses is. Ranges of a region cover it without gaps, in order.
enum class State : uint8_t {
  unused,   // a spare record, or one that Heap::free_listed left in a list
  live,     // handed out
  cached,   // freed, kept whole in a thread's cache for the next request of its size
  pending,  // freed, but other streams may still be using it
  hole,     // free, and backed by memory
  bare,     // free, and backed by nothing; whole granules
  retired,  // not free: an old mapping is still there; whole granules
};

/// Marks of a live block: its free takes the slow path, which checks them.
enum Mark : uint8_t {
  kSampled = 1,   // the pool's sampler has a record of it
  kRecorded = 2,  // its free goes into a recording
  kKept = 4,      // sleep keeps its contents, or it sleeps alone
  kDebugged = 8,  // the pool's debugger handles it, or it is protected, or exported
};

/// The holder of the lock under which a live or cached block changes: a thread's cache. Aligned so that a tag
/// has room beside a pointer to it.
struct alignas(8192) BlockOwner {};

/// What a range is, in one word, so that one load reads it and one comparison detects a change: the state
/// and, for a block, its owner and more; for a free range, a link of its index.
///
///     bits     0 to 2   3                            4 to 12                   above
///     a block  state    takes its free the long way  bytes not asked for       its owner
///     others   state    0                            0, then from bit 6 on:    what is before it in its
///     index
class Tag {
 public:
  Tag() = default;
  static Tag of(State state) noexcept { return Tag(static_cast<uintptr_t>(state)); }
  static Tag of_block(State state, const BlockOwner* owner, uint64_t unasked) noexcept {
    return Tag(reinterpret_cast<uintptr_t>(owner) + (unasked << kUnaskedShift) +
               static_cast<uintptr_t>(state));
  }

  /// The tag of a block without an owner yet: until it has one, a free takes the slow path.
  static Tag of_new_block() noexcept { return of(State::live).with_long_way(true); }

  State state() const noexcept { return static_cast<State>(bits_ & kStateMask); }
  bool is_block() const noexcept { return (bits_ & kStateMask) - 1 < 3; }
  bool takes_long_way() const noexcept { return (bits_ & kLongWay) != 0; }
  /// Live, owned, unmarked, and used by no stream but its own.
  bool is_plain_live() const noexcept {
    return (bits_ & (kStateMask | kLongWay)) == static_cast<uintptr_t>(State::live);
  }
  /// Of a block.
  uint64_t unasked() const noexcept { return bits_ >> kUnaskedShift & (kUnit - 1); }
  BlockOwner* owner() const noexcept { return reinterpret_cast<BlockOwner*>(bits_ & ~kBlockMask); }

  Tag with(State state) const noexcept { return Tag((bits_ & ~kStateMask) | static_cast<uintptr_t>(state)); }
  /// with(State::cached), of a live block.
  Tag freed() const noexcept { return Tag(bits_ + 1); }
  Tag with_long_way(bool takes) const noexcept { return Tag((bits_ & ~kLongWay) | (takes ? kLongWay : 0)); }

  friend bool operator==(const Tag&, const Tag&) = default;

 private:
  friend struct Range;
  static constexpr uintptr_t kStateMask = 7;
  static constexpr uintptr_t kLongWay = 8;
  static constexpr unsigned kUnaskedShift = 4;
  static constexpr uintptr_t kBlockMask = alignof(BlockOwner) - 1;
  static_assert(kUnit << kUnaskedShift == alignof(BlockOwner));
  static_assert(static_cast<int>(State::live) + 1 == static_cast<int>(State::cached));

  explicit Tag(uintptr_t bits) noexcept : bits_(bits) {}

  uintptr_t bits_ = 0;
};

/// One range. From live to cached and back it changes under its owner's lock; everything else, and every
/// other state, under the pool's lock. Records are never freed while the pool lives, so a thread that looks
/// up a foreign pointer finds a record, though perhaps another block's.
struct alignas(64) Range {
  Address address = 0;
  uint64_t size = 0;
  Heap* heap = nullptr;
  std::atomic<Tag> tag{Tag{}};
  union {
    Range* link = nullptr;  // next in the list that the state implies
    uintptr_t notes;        // of a live block on the slow path, or a pending one: uses() and marks
  };
  Range* prev = nullptr;  // in address order, within the region
  Range* next = nullptr;
  Region* region = nullptr;

  Address end() const noexcept { return address + size; }
  Tag now() const noexcept { return tag.load(std::memory_order_relaxed); }
  State state() const noexcept { return now().state(); }
  bool is(State wanted) const noexcept { return state() == wanted; }
  void set(Tag wanted) noexcept { tag.store(wanted, std::memory_order_relaxed); }

  /// Blocks keep their owner; any other state has none.
  void become(State wanted) noexcept {
    const Tag changed = now().with(wanted);
    set(now().is_block() && changed.is_block() ? changed : Tag::of(wanted));
  }

  /// Null if it is not a block, or has just been cut from a hole.
  BlockOwner* owner() const noexcept {
    const Tag seen = tag.load(std::memory_order_acquire);
    return seen.is_block() ? seen.owner() : nullptr;
  }

  /// Of a block.
  uint64_t requested() const noexcept { return size - now().unasked(); }
  bool takes_long_way() const noexcept { return now().takes_long_way(); }

  /// Of a live block, under its owner's lock: from now on a free takes the slow path, and the notes count.
  void begin_notes() noexcept {
    if (takes_long_way()) return;
    notes = 0;
    set(now().with_long_way(true));
  }
  /// Of a block that is no longer live: its uses remain.
  void end_notes() noexcept {
    notes &= ~kMarks;
    set(now().with_long_way(false));
  }

  /// Of a block with notes, or a pending one.
  BlockUse* uses() const noexcept { return reinterpret_cast<BlockUse*>(notes & ~kMarks); }
  void set_uses(BlockUse* first) noexcept { notes = reinterpret_cast<uintptr_t>(first) | (notes & kMarks); }

  /// Of a live block, under its owner's lock.
  bool has_mark(unsigned wanted) const noexcept { return takes_long_way() && (notes & wanted) != 0; }
  /// Whether it has some of these marks, and no others and no uses.
  bool has_only(unsigned wanted) const noexcept {
    return has_mark(wanted) && (notes & ~uintptr_t{wanted}) == 0;
  }
  void add_marks(unsigned more) noexcept {
    begin_notes();
    notes |= more;
  }
  void remove_marks(unsigned which) noexcept {
    if (!takes_long_way()) return;
    notes &= ~uintptr_t{which};
    set(now().with_long_way(notes != 0));
  }

  /// Of a range in a free index.
  Range* link_back() const noexcept {
    return reinterpret_cast<Range*>(now().bits_ & ~uintptr_t{kAlignment - 1});
  }
  void set_link_back(const Range* back) noexcept {
    set(Tag(reinterpret_cast<uintptr_t>(back) | static_cast<uintptr_t>(state())));
  }

 private:
  static constexpr size_t kAlignment = 64;
  static constexpr uintptr_t kMarks = 15;  // bits that uses() does not use
};
static_assert(sizeof(Range) == 64 && alignof(Range) == 64);

/// Supplies records. Only growing may throw, so callers reserve before they change anything.
class RangeStore {
 public:
  /// Makes the next `count` calls of get() safe. Throws std::bad_alloc.
  void reserve(size_t count) {
    while (spare_ < count + promised_) {
      slabs_.push_back(std::make_unique<Range[]>(kSlab));
      // Every other record first: processors fetch lines in pairs, and while few blocks are in use, two
      // threads that work on one pair take it from each other.
      for (const size_t odd : {size_t{1}, size_t{0}}) {
        for (size_t i = kSlab; i != 0; i -= 2) recycle(&slabs_.back()[i - 2 + odd]);
      }
    }
  }

  /// The same; false if there is no memory.
  bool try_reserve(size_t count) noexcept {
    try {
      reserve(count);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  /// Keeps `count` records for somebody who cannot fail later, until keep_promise() makes them anybody's.
  /// Throws std::bad_alloc.
  void promise(size_t count) {
    reserve(count);
    promised_ += count;
  }
  void keep_promise(size_t count) noexcept { promised_ -= count; }

  Range* get() noexcept {
    assert(free_ != nullptr);
    Range* block = free_;
    free_ = block->link;
    --spare_;
    return block;
  }

  void recycle(Range* block) noexcept {
    block->become(State::unused);
    block->link = free_;
    free_ = block;
    ++spare_;
  }

  size_t in_use() const noexcept { return slabs_.size() * kSlab - spare_; }
  /// All records, the spare ones too, which are State::unused. They come to more, and never go.
  size_t count() const noexcept { return slabs_.size() * kSlab; }
  const Range& at(size_t index) const noexcept { return slabs_[index / kSlab][index % kSlab]; }
  uint64_t bytes() const noexcept { return slabs_.size() * kSlab * sizeof(Range); }

 private:
  static constexpr size_t kSlab = 256;
  std::vector<std::unique_ptr<Range[]>> slabs_;
  Range* free_ = nullptr;
  size_t spare_ = 0;
  size_t promised_ = 0;  // of the spare ones
};

}  // namespace gpupool::internal
