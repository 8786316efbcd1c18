// SPDX-License-Identifier: Apache-2.0
// Memory that the driver's own malloc, or the user's, hands out in segments. Segments cannot be moved, so
// they are allocated in the standard chunk sizes and given back whole. Both calls may wait for the GPU or
// call the user: the lock is given up around them.
#include <algorithm>
#include <cinttypes>

#include "base/defer.hpp"
#include "pool/pool.hpp"

namespace gpupool::internal {

Status Pool::grow_segment(Lock& lock, StreamState& state, uint64_t bytes, uint64_t alignment) {
  const Group group = group_of(bytes);
  const uint64_t least = bytes + alignment - kUnit;
  const uint64_t held = group == Group::small ? state.heap(group).reserved() : ledger_.used();
  const uint64_t usual =
      std::max(align_up(least, kGranule), sizer_.chunk_size(held, least, least, sizer_.max_chunk));
  if (const uint64_t most = most_in_segments(); !options_.is_child && ledger_.used() + usual > most) {
    // What the driver does not take back stays cached, which is no reason to fail.
    const Standing before = standing();
    (void)free_segments(lock, most - std::min(most, usual));
    tell_given_back(before, "more than twice the live peak");
  }
  Status status = add_segment(lock, state, group, usual);
  if (!is_shortage(status)) return status;
  status = add_segment(lock, state, group, least);
  if (!is_shortage(status)) return status;
  if (options_.is_child) return status;  // a graph may have the addresses of what is cached
  // Cached segments that do not fit this request may make room for one that does.
  const ErrorRecord cause = last_error();
  const uint64_t before = ledger_.used();
  const uint64_t others = std::min(ledger_.budget().used_by_others(), kSizeMax);
  const uint64_t limit = std::min(ledger_.budget().limit(), kSizeMax);
  const uint64_t target =
      status == GPUPOOL_ERROR_OVER_LIMIT && limit > others + least ? limit - others - least : 0;
  const Standing then = standing();
  const bool is_freed =
      wait_for_streams(lock, "shortage") == kSuccess && free_segments(lock, target) == kSuccess;
  tell_given_back(then, "for a segment of another size");
  if (!is_freed || ledger_.used() >= before) {
    last_error() = cause;
    return status;
  }
  return add_segment(lock, state, group, least);
}

/// Where sizes drift, segments that nothing fits any more would pile up without end. The idle ones among them
/// are given back where more than twice the live peak would be reserved: a free of the driver's may wait for
/// the GPU, so they are not given back sooner.
uint64_t Pool::most_in_segments() {
  fold_counters();
  const auto live = static_cast<double>(counters_.peak_all().live.allocated);
  return static_cast<uint64_t>((1 + std::max(1.0, options_.slack)) * live);
}

/// Gets one segment and makes it a hole of the stream's heap.
Status Pool::add_segment(Lock& lock, StreamState& state, Group group, uint64_t size) {
  auto chunk = std::make_unique<Chunk>();
  if (!ledger_.budget().take(size)) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "a segment of %" PRIu64 " bytes would go over the limit", size);
  }
  Defer put_back([&] { ledger_.budget().put(size); });
  const Stream stream = state.order.stream();
  Status status = kSuccess;
  {
    lock.unlock();
    const Defer relock([&] { lock.lock(); });
    status = device_.allocate(options_.kind, size, stream, chunk->address);
    if (status != kSuccess) return status;
  }
  chunk->size = size;
  Defer free_it([&] {
    lock.unlock();
    (void)device_.deallocate(options_.kind, chunk->address, size, stream);
    lock.lock();
  });
  bool overlaps = false;
  if (status = check_segment(*chunk, overlaps); status != kSuccess) {
    // To give back what is in use already would free the other segment.
    if (overlaps) free_it.cancel();
    return status;
  }
  state.heap(group).add_segment(chunk.get(), 0);
  free_it.cancel();
  put_back.cancel();
  record_chunk(Happening::map, state.heap(group), chunk->address, size);
  chunk.release();
  ledger_.created(size);
  ledger_.attached(group, size);
  return kSuccess;
}

/// Whether the pool can use what an upstream, or the driver, gave.
Status Pool::check_segment(const Chunk& chunk, bool& overlaps) {
  const auto refuse = [&](Status status, const char* why) {
    return fail(status, "the upstream gave 0x%" PRIx64 ", %s", chunk.address, why);
  };
  if (!AddressMap::covers(chunk.address, chunk.size)) {
    return refuse(GPUPOOL_ERROR_UNSUPPORTED, "which is not all below 2^48");
  }
  if (chunk.address % kUnit != 0) return refuse(GPUPOOL_ERROR_UNSUPPORTED, "which is not aligned to 512");
  for (const Region& region : space_.regions) {
    if (chunk.address < region.end() && region.base < chunk.address + chunk.size) {
      overlaps = true;
      return refuse(GPUPOOL_ERROR_UNSUPPORTED, "which overlaps what it gave before and has not got back");
    }
  }
  return kSuccess;
}

/// A free segment that is idle, of the largest class there is; null if there is none.
Chunk* Pool::find_idle_segment() {
  if (!captures_.empty()) return nullptr;
  for (size_t at = SharedChunkLists::kClasses; at-- > 0;) {
    for (Chunk* chunk = space_.free_chunks.oldest(at); chunk != nullptr;
         chunk = SharedChunkLists::after(chunk)) {
      if (static_cast<StreamHeap*>(chunk->heap)->state().order.passed(chunk->epoch)) return chunk;
    }
  }
  return nullptr;
}

/// Gives free, idle segments back until no more than `target` is reserved, or none is left.
Status Pool::free_segments(Lock& lock, uint64_t target) {
  streams_.next_round();
  while (ledger_.used() > target) {
    Chunk* chunk = find_idle_segment();
    if (chunk == nullptr) return kSuccess;
    auto& heap = *static_cast<StreamHeap*>(chunk->heap);
    Heap::Aside aside;
    heap.take_out_segment(chunk, aside);
    Status status = kSuccess;
    {
      lock.unlock();
      const Defer relock([&] { lock.lock(); });
      status = device_.deallocate(options_.kind, chunk->address, chunk->size, heap.state().order.stream());
    }
    if (status != kSuccess) {
      heap.take_in_segment(chunk, aside);
      return status;
    }
    ledger_.detached(heap.group(), chunk->size);
    record_chunk(Happening::unmap, heap, chunk->address, chunk->size);
    ledger_.released(chunk->size);
    space_.store.put(aside.front().first);
    delete chunk;
  }
  return kSuccess;
}

}  // namespace gpupool::internal
