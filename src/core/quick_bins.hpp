// SPDX-License-Identifier: Apache-2.0
// The fastest way to a block: blocks that one thread freed on one stream, by exact size.
#pragma once

#include <array>
#include <cstdint>

#include "core/range.hpp"

namespace gpupool::internal {

/// A direct-mapped table of stacks of equal blocks. A block whose place another size holds goes to a list of
/// loose ones, where no request finds it. Blocks here are not merged with their neighbours, so the pool
/// drains them before it takes memory from the device: they cost no reserved memory.
class alignas(64) QuickBins {
 public:
  /// The last block of this size that was pushed, or null.
  Range* pop(uint64_t size) noexcept {
    const size_t slot = slot_of(size);
    Bin& bin = bins_[slot];
    if (bin.size != size || bin.top == nullptr) return nullptr;
    Range* block = bin.top;
    bin.top = block->link;
    if (!touched_) touched_ = true;  // no needless write: see push()
    return block;
  }

  void push(Range* block) noexcept {
    const size_t slot = slot_of(block->size);
    Bin& bin = bins_[slot];
    if (bin.size != block->size) [[unlikely]] {
      if (bin.top != nullptr) {
        block->link = loose_;
        loose_ = block;
        ++loose_count_;
        return;
      }
      bin.size = block->size;
    }
    block->link = bin.top;
    bin.top = block;
    // Mostly it is already set, and then this line stays shared with a thread that frees this thread's
    // blocks.
    if ((filled_ >> slot & 1) == 0) filled_ |= uint64_t{1} << slot;
  }

  /// Two loose blocks, as a list through Range::link, if there are more than kLooseMax; else null. Called at
  /// each miss, it keeps them few, because a malloc that drained thousands would take long.
  Range* pop_surplus() noexcept {
    if (loose_count_ <= kLooseMax) return nullptr;
    Range* first = loose_;
    Range* second = first->link;
    loose_ = second->link;
    second->link = nullptr;
    loose_count_ -= 2;
    return first;
  }

  /// The thread is active, though it found nothing here.
  void touch() noexcept { touched_ = true; }
  /// Whether a block was taken from here, or would have been, since rest().
  bool was_touched() const noexcept { return touched_; }
  void rest() noexcept { touched_ = false; }

  /// For use after a drain. May say no if blocks have been popped since.
  bool empty() const noexcept { return filled_ == 0 && loose_ == nullptr; }

  /// Takes up to `most` blocks, which it counts down, and puts them in front of the list `taken`.
  Range* drain(size_t& most, Range* taken = nullptr) noexcept {
    const size_t before = most;
    taken = move(loose_, most, taken);
    loose_count_ -= before - most;
    for (; filled_ != 0 && most != 0; filled_ &= filled_ - 1) {
      Range*& top = bins_[static_cast<size_t>(std::countr_zero(filled_))].top;
      taken = move(top, most, taken);
      if (top != nullptr) break;
    }
    return taken;
  }

  /// Calls visit(block) for everything, until it returns false.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const Bin& bin : bins_) {
      for (const Range* block = bin.top; block != nullptr; block = block->link) {
        if (!visit(block)) return;
      }
    }
    for (const Range* block = loose_; block != nullptr; block = block->link) {
      if (!visit(block)) return;
    }
  }

 private:
  static constexpr unsigned kSlotBits = 6;
  static constexpr size_t kLooseMax = 64;

  struct Bin {
    uint64_t size = 0;
    Range* top = nullptr;
  };

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

  static size_t slot_of(uint64_t size) noexcept { return hash_to(kSlotBits, size / kUnit); }

  uint64_t filled_ = 0;  // slots that may hold a block
  Range* loose_ = nullptr;
  size_t loose_count_ = 0;
  bool touched_ = false;
  std::array<Bin, size_t{1} << kSlotBits> bins_{};
};

}  // namespace gpupool::internal
