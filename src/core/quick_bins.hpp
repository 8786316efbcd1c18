// SPDX-License-Identifier: Apache-2.0
// The fastest way to a block: those that one thread freed on one stream, by exact size.
#pragma once

#include <array>
#include <cstdint>

#include "core/block.hpp"

namespace gpupool {

/// A direct-mapped table of stacks of equal blocks. Pushing a size whose place another size holds is refused,
/// unless that stack is empty. What is in here is not merged with its neighbours, so the pool drains it
/// before it takes memory from the device: what is kept here costs no reserved memory.
class QuickBins {
 public:
  /// The last block of this size that was pushed, or null.
  Block* pop(uint64_t size) noexcept {
    const size_t slot = slot_of(size);
    Bin& bin = bins_[slot];
    if (bin.size != size || bin.top == nullptr) return nullptr;
    Block* block = bin.top;
    bin.top = block->link;
    return block;
  }

  bool push(Block* block) noexcept {
    const size_t slot = slot_of(block->size);
    Bin& bin = bins_[slot];
    if (bin.size != block->size) {
      if (bin.top != nullptr) return false;
      bin.size = block->size;
    }
    block->link = bin.top;
    bin.top = block;
    filled_ |= uint64_t{1} << slot;
    return true;
  }

  /// Takes everything, as one list through Block::link in front of `all`.
  Block* drain(Block* all = nullptr) noexcept {
    for (; filled_ != 0; filled_ &= filled_ - 1) {
      Bin& bin = bins_[static_cast<size_t>(std::countr_zero(filled_))];
      while (Block* block = bin.top) {
        bin.top = block->link;
        block->link = all;
        all = block;
      }
    }
    return all;
  }

  /// Calls visit(block) for everything.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const Bin& bin : bins_) {
      for (const Block* block = bin.top; block != nullptr; block = block->link) visit(block);
    }
  }

 private:
  static constexpr unsigned kSlotBits = 6;

  struct Bin {
    uint64_t size = 0;
    Block* top = nullptr;
  };

  static size_t slot_of(uint64_t size) noexcept {
    return static_cast<size_t>((size / kUnit) * 0x9E3779B97F4A7C15U >> (64 - kSlotBits));
  }

  std::array<Bin, size_t{1} << kSlotBits> bins_{};
  uint64_t filled_ = 0;  // slots that may hold a block
};

}  // namespace gpupool
