// SPDX-License-Identifier: Apache-2.0
#include "pool/observe/snapshot.hpp"

#include <algorithm>

#include "pool/stream/streams.hpp"

namespace gpupool::internal {

bool Snapshot::step() {
  constexpr size_t kChunks = 128;
  constexpr size_t kRanges = 256;
  if (next_chunk_ < space_.chunks.count()) {
    const size_t end = std::min(next_chunk_ + kChunks, space_.chunks.count());
    while (next_chunk_ < end) see(space_.chunks.at(next_chunk_++));
    return true;
  }
  const size_t end = std::min(next_range_ + kRanges, space_.store.count());
  while (next_range_ < end) see(space_.store.at(next_range_++));
  return next_range_ < space_.store.count();
}

/// Adds a chunk that is mapped, or in hand, without an address. A chunk that is asleep is neither.
void Snapshot::see(const Chunk& chunk) {
  any_asleep_ = any_asleep_ || chunk.asleep;
  if (chunk.size == 0 || chunk.asleep || (chunk.address != 0 && chunk.region == nullptr)) return;
  const auto* heap = static_cast<const StreamHeap*>(chunk.heap);
  gpupool_segment_t segment{};
  segment.address = chunk.address;
  segment.size_bytes = chunk.size;
  segment.blocks = chunk.users;
  segment.stream = heap != nullptr ? heap->state().order.stream() : 0;
  segment.is_small = heap != nullptr && heap->group() == SizeGroup::small ? 1 : 0;
  segments_.add(segment);
}

void Snapshot::see(const Range& range) {
  // Read once, since a block goes from live to cached and back without the pool's lock.
  const Tag tag = range.now();
  gpupool_block_t block{};
  switch (tag.state()) {
    case State::live:
      block.state = any_asleep_ && has_asleep(range) ? GPUPOOL_BLOCK_ASLEEP : GPUPOOL_BLOCK_LIVE;
      break;
    case State::pending: block.state = GPUPOOL_BLOCK_PENDING; break;
    case State::cached:
    case State::hole: block.state = GPUPOOL_BLOCK_CACHED; break;
    default: return;
  }
  block.address = range.address;
  block.allocated_bytes = range.size;
  block.requested_bytes = tag.is_block() ? range.size - tag.unasked() : 0;
  block.stream = streams_.stream_of(range);
  block.device = device_;
  blocks_.add(block);
}

}  // namespace gpupool::internal
