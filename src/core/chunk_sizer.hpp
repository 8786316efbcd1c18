// SPDX-License-Identifier: Apache-2.0
// How large a new chunk should be.
#pragma once

#include <algorithm>

#include "core/policy.hpp"

namespace gpupool::internal {

/// The driver charges per chunk, whatever its size; but a chunk is free only when no block touches it, and
/// the part beyond the last block is reserved early. So there are two rungs. Fine chunks pack tightly and are
/// for pools whose driver calls have cost little so far. Coarse ones are a larger share of what their heap
/// holds. On both, chunks inside a much larger block grow with the block, because it frees them all at once.
struct ChunkSizer {
  uint64_t max_chunk = policy::kMaxChunk;
  bool fine = false;

  /// Size of a chunk to create towards a gap of `gap` bytes for a block of `block` bytes in a heap that holds
  /// `heap_bytes`. At most `room`, the most that can be mapped in one piece. Always a power of two.
  uint64_t chunk_size(uint64_t heap_bytes, uint64_t block, uint64_t gap, uint64_t room) const noexcept {
    using namespace policy;
    uint64_t by_heap = heap_bytes / (fine ? kFineHeapParts : kHeapParts);
    // If every second block is freed, blocks that share chunks of about their own size free no chunk, unless
    // they fill the chunks exactly.
    if (heap_bytes < kGiB)
      by_heap = std::min(by_heap, std::max(is_power_of_two(block) ? block : block / 2, kWholeBlock));
    const uint64_t by_block =
        fine ? block / kFineBlockParts : std::max(block / kBlockParts, std::min(block, kWholeBlock));
    uint64_t size = std::max(by_heap, by_block);
    // The part beyond the block should follow the heap's size, not the block's.
    if (size > gap) size = std::max(by_heap, gap);
    size = std::min({size, max_chunk, room});
    return floor_power_of_two(std::max(size, kGranule));
  }
};

}  // namespace gpupool::internal
