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
/// Where room does not count, coarse ones are half of it, which moves between streams at a low price.
struct ChunkSizer {
  uint64_t max_chunk = policy::kMaxChunk;      // that blocks may share
  uint64_t max_shared = ~uint64_t{0};          // that blocks may share where processes share the limit
  uint64_t block_parts = policy::kBlockParts;  // of a block, that a coarse chunk inside it is
  bool fine = false;
  uint64_t max_inside = 0;  // of chunks inside a block where room does not count; 0: it does

  /// Size of a chunk to create towards a gap of `gap` bytes for a block of `block` bytes in a heap that holds
  /// `heap_bytes`. At most `room`, the most that can be mapped in one piece. Always a power of two.
  uint64_t chunk_size(uint64_t heap_bytes, uint64_t block, uint64_t gap, uint64_t room) const noexcept {
    using namespace policy;
    uint64_t by_heap = std::min({heap_bytes / (fine ? kFineHeapParts : kHeapParts), max_chunk, max_shared});
    // If every second block is freed, blocks that share chunks of about their own size free no chunk, unless
    // they fill the chunks exactly.
    if (heap_bytes < kGiB)
      by_heap = std::min(by_heap, std::max(is_power_of_two(block) ? block : block / 2, kWholeBlock));
    uint64_t size = std::max(by_heap, by_block(block));
    // The part beyond the block should follow the heap's size, not the block's.
    if (size > gap) size = std::max(by_heap, gap);
    return floor_power_of_two(std::max(std::min(size, room), kGranule));
  }

 private:
  uint64_t by_block(uint64_t block) const noexcept {
    using namespace policy;
    const uint64_t large = std::min(block / (fine ? kFineBlockParts : kLargeBlockParts), max_inside);
    if (large >= 2 * kMaxChunk) return large;
    if (fine) return std::min(block / kFineBlockParts, max_chunk);
    return std::min(std::max(block / block_parts, std::min(block, kWholeBlock)), max_chunk);
  }
};

}  // namespace gpupool::internal
