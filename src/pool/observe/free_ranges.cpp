// SPDX-License-Identifier: Apache-2.0
#include "pool/observe/free_ranges.hpp"

#include <algorithm>

#include "pool/memory/pool_state.hpp"

namespace gpupool::internal {
namespace {

bool is_cached(const Range* range, const Heap* heap) noexcept {
  return range != nullptr && range->heap == heap && range->is(State::cached);
}

/// What a cached block would be part of if caches were drained. Adds the cached blocks to `bytes`, if it is
/// the first one of its neighbours; else it was, or will be, looked at with that one.
uint64_t merged_size(const Range& block, size_t& looked, size_t most, uint64_t& bytes) noexcept {
  if (is_cached(block.prev, block.heap)) return 0;
  const auto is_hole = [&](const Range* range) {
    return range != nullptr && range->heap == block.heap && range->is(State::hole);
  };
  uint64_t size = is_hole(block.prev) ? block.prev->size : 0;
  const Range* range = &block;
  for (; is_hole(range) || (is_cached(range, block.heap) && looked++ < most); range = range->next) {
    size += range->size;
    if (!is_hole(range)) bytes += range->size;
  }
  return size;
}

}  // namespace

FreeRanges FreeRanges::of(PoolState& pool, size_t most_streams, size_t most_blocks) noexcept {
  FreeRanges found;
  size_t streams = 0;
  for (const auto& state : pool.streams.all()) {
    if (streams++ == most_streams) break;
    if (state->capture != 0) continue;
    for (const StreamHeap& heap : state->heaps) {
      found.bytes += heap.hole_bytes();
      found.largest = std::max(found.largest, heap.largest_hole());
    }
  }
  size_t looked = 0;
  pool.caches.for_each_locked([&](const ThreadCache& cache) {
    cache.lanes.for_each([&](const Lane& lane) {
      if (looked >= most_blocks) return;
      lane.bins.for_each([&](const Range* block) {
        found.largest = std::max(found.largest, merged_size(*block, looked, most_blocks, found.bytes));
        return ++looked < most_blocks;
      });
    });
  });
  return found;
}

}  // namespace gpupool::internal
