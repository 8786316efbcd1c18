// SPDX-License-Identifier: Apache-2.0
// The fastest way to a block: those that one thread freed on one stream, by exact size.
#pragma once

#include <array>
#include <cstdint>

#include "core/range.hpp"

namespace gpupool::internal {

/// A direct-mapped table of stacks of equal blocks. A block whose place another size holds goes to a list of
/// loose ones, where no request finds it. What is in here is not merged with its neighbours, so the pool
/// drains it before it takes memory from the device: what is kept here costs no reserved memory.
class alignas(64) QuickBins {
 public:
  /// The last block of this size that was pushed, or null.
  Range* pop(uint64_t size) noexcept {
    const size_t slot = slot_of(size);
    Bin& bin = bins_[slot];
    if (bin.size != size || bin.top == nullptr) return nullptr;
    Range* block = bin.top;
    bin.top = block->link;
    if (!touched_) touched_ = true;  // not written for nothing: see push()
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
    // Mostly it is set already, and this line stays shared with a thread that frees this one's blocks.
    if ((filled_ >> slot & 1) == 0) filled_ |= uint64_t{1} << slot;
  }

  /// Two loose blocks, as a list through Range::link, where there are more than kLooseMax; else null. Taken
  /// at each miss, it keeps them few: draining thousands would be a wait of a tenth of a millisecond.
  Range* surplus() noexcept {
    if (loose_count_ <= kLooseMax) return nullptr;
    Range* first = loose_;
    Range* second = first->link;
    loose_ = second->link;
    second->link = nullptr;
    loose_count_ -= 2;
    return first;
  }

  /// The thread is at work, though it found nothing here.
  void touch() noexcept { touched_ = true; }
  /// Whether a block was taken from here, or would have been, since this was last asked.
  bool was_touched() noexcept {
    const bool touched = touched_;
    touched_ = false;
    return touched;
  }

  /// After a drain. Where blocks have been popped since, it may say no.
  bool empty() const noexcept { return filled_ == 0 && loose_ == nullptr; }

  /// Takes everything, as one list through Range::link in front of `all`.
  Range* drain(Range* all = nullptr) noexcept {
    all = move(loose_, all);
    loose_count_ = 0;
    for (; filled_ != 0; filled_ &= filled_ - 1) {
      all = move(bins_[static_cast<size_t>(std::countr_zero(filled_))].top, all);
    }
    return all;
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

  /// Empties one list into another.
  static Range* move(Range*& from, Range* to) noexcept {
    while (Range* block = from) {
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
