// SPDX-License-Identifier: Apache-2.0
// How large a new chunk should be.
#pragma once

#include <algorithm>

#include "core/size.hpp"

namespace gpupool {

/// Every driver call is paid per chunk, whatever its size; but a chunk is free only when no block touches it.
/// So chunks grow with what is reserved (few chunks, small waste), and inside a block much larger than that
/// they grow with the block, since it frees them all at once.
struct Ladder {
  static constexpr uint64_t kDefaultMax = 128 * kMiB;
  /// A chunk is about this part of what is reserved ...
  static constexpr uint64_t kHeapShare = 512;
  /// ... or this part of the block it is created for, if that is more.
  static constexpr uint64_t kBlockShare = 8;

  uint64_t max_chunk = kDefaultMax;

  /// Size of a chunk to create towards a gap of `gap` bytes for a block of `block` bytes while `reserved`
  /// bytes are held. At most `room`, which is what can be mapped in one piece.
  uint64_t chunk_size(uint64_t reserved, uint64_t block, uint64_t gap, uint64_t room) const noexcept {
    const uint64_t by_heap = floor_power_of_two(std::max(reserved / kHeapShare, kGranule));
    const uint64_t by_block = floor_power_of_two(std::max(block / kBlockShare, kGranule));
    uint64_t size = std::min(std::max(by_heap, by_block), max_chunk);
    // What sticks out of the block should be the heap's size, not the block's.
    if (size > gap) size = std::max(by_heap, floor_power_of_two(gap));
    size = std::min(size, max_chunk);
    return std::max(std::min(size, floor_power_of_two(room)), kGranule);
  }
};

}  // namespace gpupool
