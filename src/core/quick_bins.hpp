// SPDX-License-Identifier: Apache-2.0
// The fastest way to a block: blocks that one thread freed on one stream, by exact size.
#pragma once

#include <array>
#include <cstdint>
#include <new>
#include <vector>

#include "base/reserve.hpp"
#include "core/bitmap.hpp"
#include "core/range.hpp"

namespace gpupool::internal {

/// A table of stacks of equal blocks. Each small size has a stack of its own. The large ones share 64: a
/// block whose stack another size holds goes to a list of loose ones, where no request finds it. Blocks here
/// are not merged with their neighbours, so the pool drains them before it takes memory from the device: they
/// cost no reserved memory.
class alignas(64) QuickBins {
 public:
  /// The block that was pushed last of those that serve such a request, or null.
  Range* pop(uint64_t requested) noexcept {
    const uint64_t unit = last_unit_of(requested);
    Range*& top = tops_[slot_of(unit)];
    Range* block = top;
    if (block == nullptr) return nullptr;
    if (!has_own_stack(unit) && last_unit_of(block->size) != unit) return nullptr;
    top = block->link;
    bool& touched = touched_[at(has_own_stack(unit) ? SizeGroup::small : SizeGroup::large)];
    if (!touched) touched = true;  // no needless write: see push()
    return block;
  }

  void push(Range* block) noexcept {
    const uint64_t unit = last_unit_of(block->size);
    const size_t slot = slot_of(unit);
    Range*& top = tops_[slot];
    if (!has_own_stack(unit) && top != nullptr && top->size != block->size) [[unlikely]] {
      block->link = loose_;
      loose_ = block;
      ++loose_count_;
      return;
    }
    block->link = top;
    top = block;
    // Mostly it is there already, and then its line stays shared with a thread that frees this thread's
    // blocks.
    if (!filled_.has(slot)) mark(slot);
  }

  /// The smallest of the small blocks that are larger than this, or null.
  Range* pop_larger(uint64_t size) noexcept {
    size_t most = 1;
    return drain_slots(last_unit_of(size) + 1, kSmallSlots, most, nullptr);
  }

  /// Up to two blocks, as a list through Range::link, if there are too many; else null. Called at each miss,
  /// it keeps them few, because a malloc that drained thousands would take long. Of the small ones the
  /// largest go, whose sizes repeat least.
  Range* pop_surplus(SizeGroup group) noexcept {
    size_t most = 2;
    if (group == SizeGroup::large) return loose_count_ > kMostLoose ? drain_loose(most, nullptr) : nullptr;
    ++misses_;
    Range* taken = nullptr;
    while (most != 0 && small_stacks_ > kFewStacks + misses_ / kMissesPerStack) {
      const size_t largest = filled_.last_to(kSmallSlots - 1);
      taken = drain_slots(largest, largest + 1, most, taken);
    }
    return taken;
  }

  /// Moves all stacks of small blocks to a shelf, where no malloc looks: a small block of this lane that is
  /// freed is then there. False if it is full.
  bool shelve() noexcept {
    if (small_stacks_ == 0) return true;
    if (shelf_.size() + small_stacks_ > kMostShelved) return false;
    try {
      reserve_more(shelf_, small_stacks_);
    } catch (const std::bad_alloc&) {
      return false;
    }
    for (size_t slot = filled_.first_from(0); slot < kSmallSlots; slot = filled_.first_from(slot)) {
      if (tops_[slot] != nullptr) shelf_.push_back(tops_[slot]);
      tops_[slot] = nullptr;
      unmark(slot);
    }
    return true;
  }
  /// One record of the shelf, or null.
  Range* pop_shelved() noexcept {
    size_t most = 1;
    return drain_shelf(most, nullptr);
  }

  /// The thread is active, though it found nothing here.
  void touch(SizeGroup group) noexcept { touched_[at(group)] = true; }
  /// Whether a block was taken from here, or would have been, since rest().
  bool was_touched(SizeGroup group) const noexcept { return touched_[at(group)]; }
  void rest() noexcept { touched_ = {}; }

  /// For use after a drain. May say no if blocks have been popped since.
  bool empty() const noexcept {
    return filled_.first_from(0) == filled_.kNone && loose_ == nullptr && shelf_.empty();
  }

  /// Takes up to `most` blocks of a group, which it counts down, and puts them in front of the list `taken`.
  /// Among those from the shelf are records that Heap::free_listed left there.
  Range* drain(SizeGroup group, size_t& most, Range* taken = nullptr) noexcept {
    if (group == SizeGroup::large) return drain_slots(kSmallSlots, kSlots, most, drain_loose(most, taken));
    if (small_stacks_ > kFewStacks) misses_ = 0;
    return drain_slots(0, kSmallSlots, most, drain_shelf(most, taken));
  }

  /// Calls visit(block) for every block, until it returns false. The large ones come first.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const Range* block = loose_; block != nullptr; block = block->link) {
      if (!visit(block)) return;
    }
    const auto visit_slots = [&](size_t from, size_t end) {
      for (size_t slot = filled_.first_from(from); slot < end; slot = filled_.first_from(slot + 1)) {
        for (const Range* block = tops_[slot]; block != nullptr; block = block->link) {
          if (!visit(block)) return false;
        }
      }
      return true;
    };
    if (!visit_slots(kSmallSlots, kSlots) || !visit_slots(0, kSmallSlots)) return;
    for (const Range* top : shelf_) {
      for (const Range* block = top; block != nullptr; block = block->link) {
        if (block->is(State::cached) && !visit(block)) return;
      }
    }
  }

  /// Every block is where pop() looks for it, or loose; every stack is marked; and what is counted is there.
  bool is_valid() const noexcept {
    bool valid = true;
    size_t small_marks = 0;
    for (size_t slot = 0; slot < kSlots; ++slot) {
      const Range* top = tops_[slot];
      if (filled_.has(slot) && slot < kSmallSlots) ++small_marks;
      valid = valid && (top == nullptr || filled_.has(slot));
      for (const Range* block = top; block != nullptr; block = block->link) {
        valid = valid && block->size == top->size && slot_of(last_unit_of(block->size)) == slot;
      }
    }
    size_t loose = 0;
    for (const Range* block = loose_; block != nullptr; block = block->link) ++loose;
    return valid && small_marks == small_stacks_ && loose == loose_count_;
  }

 private:
  static constexpr size_t kSmallSlots = kSmallMax / kUnit;
  static constexpr unsigned kLargeBits = 6;
  static constexpr size_t kSlots = kSmallSlots + (size_t{1} << kLargeBits);
  static constexpr size_t kMostLoose = 64;
  /// After a drain of more small stacks than this, no more are kept, but for one in so many misses: a program
  /// that repeats its sizes keeps all in the end, and one whose sizes never repeat soon needs the next drain,
  /// which is then short.
  static constexpr size_t kFewStacks = 16;
  static constexpr size_t kMissesPerStack = 128;
  static constexpr size_t kMostShelved = 4 * kSmallSlots;

  static constexpr size_t at(SizeGroup group) noexcept { return static_cast<size_t>(index_of(group)); }
  /// Of a request's or block's last byte, so that both have the same.
  static constexpr uint64_t last_unit_of(uint64_t size) noexcept { return (size - 1) / kUnit; }
  static constexpr bool has_own_stack(uint64_t unit) noexcept { return unit < kSmallSlots; }
  static size_t slot_of(uint64_t unit) noexcept {
    return has_own_stack(unit) ? unit : kSmallSlots + hash_to(kLargeBits, unit);
  }

  void mark(size_t slot) noexcept {
    filled_.set(slot);
    if (slot < kSmallSlots) ++small_stacks_;
  }
  void unmark(size_t slot) noexcept {
    filled_.clear(slot);
    if (slot < kSmallSlots) --small_stacks_;
  }

  /// Moves up to `most` blocks from one list into another.
  static Range* move(Range*& from, size_t& most, Range* to) noexcept {
    for (; from != nullptr && most != 0; --most) {
      Range* block = from;
      from = block->link;
      block->link = to;
      to = block;
    }
    return to;
  }

  Range* drain_loose(size_t& most, Range* taken) noexcept {
    const size_t before = most;
    taken = move(loose_, most, taken);
    loose_count_ -= before - most;
    return taken;
  }

  Range* drain_shelf(size_t& most, Range* taken) noexcept {
    while (!shelf_.empty() && most != 0) {
      taken = move(shelf_.back(), most, taken);
      if (shelf_.back() == nullptr) shelf_.pop_back();
    }
    return taken;
  }

  /// From the slots in [from, end).
  Range* drain_slots(size_t from, size_t end, size_t& most, Range* taken) noexcept {
    for (size_t slot = filled_.first_from(from); slot < end && most != 0; slot = filled_.first_from(slot)) {
      taken = move(tops_[slot], most, taken);
      if (tops_[slot] == nullptr) unmark(slot);
    }
    return taken;
  }

  Bitmap<kSlots> filled_;  // slots that may hold a block
  Range* loose_ = nullptr;
  size_t loose_count_ = 0;
  size_t small_stacks_ = 0;                        // slots of small sizes among these
  size_t misses_ = kSmallSlots * kMissesPerStack;  // of small requests since a drain that took many
  std::array<bool, kGroups> touched_{};
  std::array<Range*, kSlots> tops_{};
  std::vector<Range*> shelf_;  // stacks
};

}  // namespace gpupool::internal
