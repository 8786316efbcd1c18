// SPDX-License-Identifier: Apache-2.0
// Memory that the driver's own malloc, or the user's, hands out in segments. They cannot be moved, so they
// are obtained in the ladder's sizes, and given back whole. Both calls may wait for the GPU or call the user:
// the lock is given up around them.
#include <algorithm>
#include <cinttypes>

#include "pool/pool.hpp"

namespace gpupool {

Status Pool::grow_segment(Lock& lock, StreamState& state, uint64_t bytes, uint64_t alignment) {
  const Group group = group_of(bytes);
  const uint64_t least = bytes + alignment - kUnit;
  const uint64_t held = group == Group::small ? state.heap(group).reserved() : budget_.used();
  const uint64_t usual =
      std::max(align_up(least, kGranule), ladder_.chunk_size(held, least, least, ladder_.max_chunk));
  if (const uint64_t most = most_in_segments(); budget_.used() + usual > most) {
    // What the driver does not take back stays cached, which is no reason to fail.
    (void)free_segments(lock, most - std::min(most, usual));
  }
  Status status = add_segment(lock, state, group, usual);
  if (!is_shortage(status)) return status;
  status = add_segment(lock, state, group, least);
  if (!is_shortage(status)) return status;
  // Cached segments that do not fit this request may make room for one that does.
  const ErrorRecord cause = last_error();
  const uint64_t before = budget_.used();
  const uint64_t limit = std::min(budget_.limit(), kSizeMax);
  const uint64_t target = status == GPUPOOL_ERROR_OVER_LIMIT && limit > least ? limit - least : 0;
  if (wait_for_streams(lock) != kSuccess || free_segments(lock, target) != kSuccess ||
      budget_.used() >= before) {
    last_error() = cause;
    return status;
  }
  return add_segment(lock, state, group, least);
}

/// Where sizes drift, segments that nothing fits any more would pile up without end. The idle ones among them
/// are given back where more than twice the live peak would be reserved: a free of the driver's may wait for
/// the GPU, so they are not given back sooner.
uint64_t Pool::most_in_segments() {
  publish_all();
  const auto live = static_cast<double>(counters_.peak_all().allocated.allocated);
  return static_cast<uint64_t>((1 + std::max(1.0, options_.slack)) * live);
}

/// Gets one segment and makes it a hole of the stream's heap.
Status Pool::add_segment(Lock& lock, StreamState& state, Group group, uint64_t size) {
  if (!budget_.take(size)) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "a segment of %" PRIu64 " bytes would go over the limit", size);
  }
  auto chunk = std::make_unique<Chunk>();
  lock.unlock();
  Status status = driver_.allocate(options_.kind, size, state.order.stream(), chunk->address);
  if (status == kSuccess && (chunk->address % kUnit != 0 || !AddressMap::covers(chunk->address, size))) {
    (void)driver_.deallocate(options_.kind, chunk->address, size, state.order.stream());
    status = fail(GPUPOOL_ERROR_UNSUPPORTED,
                  "the upstream gave 0x%" PRIx64 ", which is not aligned to %" PRIu64, chunk->address, kUnit);
  }
  lock.lock();
  if (status != kSuccess) {
    budget_.put(size);
    return status;
  }
  chunk->size = size;
  StreamHeap& heap = state.heap(group);
  heap.add_segment(chunk.get(), 0, ++age_);
  chunk.release();
  reserved_.add(size);
  chunks_.add(1);
  group_reserved_[static_cast<size_t>(index_of(group))].add(size);
  group_chunks_[static_cast<size_t>(index_of(group))].add(1);
  return kSuccess;
}

/// Gives free, idle segments back until no more than `target` is reserved, or none is left.
Status Pool::free_segments(Lock& lock, uint64_t target) {
  struct Leaving {
    std::unique_ptr<Chunk> chunk;
    StreamHeap* heap;
  };
  std::vector<Leaving> leaving;
  uint64_t left = budget_.used();
  ++tick_;
  for (const auto& state : streams_) {
    if (keeps_mappings(*state)) continue;
    for (StreamHeap& heap : state->heaps) {
      for (size_t size_class = ChunkLists::kClasses; size_class-- > 0 && left > target;) {
        for (Chunk* chunk = heap.free_chunks().oldest(size_class); chunk != nullptr && left > target;) {
          Chunk* next = chunk->next;
          if (state->order.passed(chunk->epoch, tick_)) {
            leaving.reserve(leaving.size() + 1);
            heap.claim(chunk);
            heap.remove_segment(chunk);
            leaving.push_back({std::unique_ptr<Chunk>(chunk), &heap});
            left -= chunk->size;
          }
          chunk = next;
        }
      }
    }
  }
  lock.unlock();
  Status status = kSuccess;
  std::vector<Leaving> stayed;
  stayed.reserve(leaving.size());
  for (Leaving& each : leaving) {
    const Status freed = driver_.deallocate(options_.kind, each.chunk->address, each.chunk->size,
                                            each.heap->state().order.stream());
    if (freed == kSuccess) continue;
    status = freed;
    stayed.push_back(std::move(each));
  }
  lock.lock();
  for (const Leaving& each : leaving) {
    if (each.chunk == nullptr) continue;
    const auto group = static_cast<size_t>(index_of(each.heap->group()));
    group_reserved_[group].subtract(each.chunk->size);
    group_chunks_[group].subtract(1);
    reserved_.subtract(each.chunk->size);
    chunks_.subtract(1);
    budget_.put(each.chunk->size);
  }
  for (Leaving& each : stayed) each.heap->add_segment(each.chunk.release(), 0, ++age_);
  return status;
}

}  // namespace gpupool
