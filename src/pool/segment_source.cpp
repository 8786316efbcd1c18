// SPDX-License-Identifier: Apache-2.0
#include "pool/segment_source.hpp"

#include <algorithm>
#include <cinttypes>
#include <memory>

#include "base/defer.hpp"

namespace gpupool::internal {

Status SegmentSource::grow(Lock& lock, StreamState& state, uint64_t bytes, uint64_t alignment, bool) {
  Ledger& ledger = rooms_.ledger;
  const SizeGroup group = group_of(bytes);
  const uint64_t least = bytes + alignment - kUnit;
  const uint64_t heap_bytes = group == SizeGroup::small ? state.heap(group).reserved() : ledger.used();
  const ChunkSizer& sizer = rooms_.sizer;
  const uint64_t usual =
      std::max(align_up(least, kGranule), sizer.chunk_size(heap_bytes, least, least, sizer.max_chunk));
  if (const uint64_t most = most_reserved(); !rooms_.options.is_child && ledger.used() + usual > most) {
    // A segment that the driver does not take back stays cached. That is no reason to fail.
    const Ledger::Standing before = ledger.standing();
    (void)free_idle(lock, most - std::min(most, usual));
    rooms_.narrator.released(before, "more than twice the live peak");
  }
  Status status = add_segment(lock, state, group, usual);
  if (!is_shortage(status)) return status;
  status = add_segment(lock, state, group, least);
  // A graph may have the addresses of what a child has cached.
  if (!is_shortage(status) || rooms_.options.is_child) return status;
  // Cached segments that do not fit this request may make room for one that does.
  const ErrorRecord cause = last_error();
  const Ledger::Standing before = ledger.standing();
  const bool is_freed = free_idle(lock, target_for(status, least)) == kSuccess;
  rooms_.narrator.released(before, "for a segment of another size");
  if (!is_freed || ledger.standing().chunks_released == before.chunks_released) {
    last_error() = cause;
    return status;
  }
  return add_segment(lock, state, group, least);
}

/// When sizes drift, segments that fit no request any more would pile up without end. So idle segments are
/// released before more than this is reserved, at least twice the live peak. They are not released sooner,
/// since the driver's free may wait for the GPU.
uint64_t SegmentSource::most_reserved() noexcept {
  rooms_.caches.fold(rooms_.counters);
  const auto live = static_cast<double>(rooms_.counters.peak_all().live.allocated);
  return static_cast<uint64_t>((1 + std::max(policy::kSegmentSlack, rooms_.options.slack)) * live);
}

/// What may stay reserved after a segment of `bytes` was refused: if the pool's own limit refused it, what
/// leaves room for it; else nothing.
uint64_t SegmentSource::target_for(Status status, uint64_t bytes) const noexcept {
  const Budget& budget = rooms_.ledger.budget();
  const uint64_t others = std::min(budget.used_by_others(), kSizeMax);
  const uint64_t limit = std::min(budget.own_limit(), kSizeMax);
  const bool is_own = status == GPUPOOL_ERROR_OVER_LIMIT && budget.own_room() < bytes;
  return is_own && limit > others + bytes ? limit - others - bytes : 0;
}

Status SegmentSource::reserve(Lock& lock, StreamState& state, uint64_t target) {
  return add_segment(lock, state, SizeGroup::large, align_up(target - rooms_.ledger.used(), kGranule));
}

/// Allocates one segment, as a hole of the stream's heap.
Status SegmentSource::add_segment(Lock& lock, StreamState& state, SizeGroup group, uint64_t size) {
  const Kind kind = rooms_.options.kind;
  Chunk* chunk = rooms_.space.chunks.get();
  Defer recycle([&] { rooms_.space.chunks.recycle(chunk); });
  if (!rooms_.ledger.budget().charge(size)) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "a segment of %" PRIu64 " bytes would go over the limit", size);
  }
  Defer refund([&] { rooms_.ledger.budget().refund(size); });
  const Stream stream = state.order.stream();
  Status status = kSuccess;
  {
    lock.unlock();
    const Defer relock([&] { lock.lock(); });
    status = rooms_.device.allocate(kind, size, stream, chunk->address);
    if (status != kSuccess) return status;
  }
  chunk->size = size;
  Defer free_it([&] {
    lock.unlock();
    (void)rooms_.device.deallocate(kind, chunk->address, size, stream);
    lock.lock();
  });
  bool overlaps = false;
  if (status = check_segment(*chunk, overlaps); status != kSuccess) {
    // Freeing an address that is already in use would free the other segment.
    if (overlaps) free_it.cancel();
    return status;
  }
  StreamHeap& heap = state.heap(group);
  heap.add_segment(chunk, 0);
  free_it.cancel();
  refund.cancel();
  rooms_.narrator.mapped(heap, chunk->address, size);
  rooms_.device.annotate(chunk->address, size, Standing::closed);
  recycle.cancel();
  rooms_.ledger.created(size);
  rooms_.ledger.attached(group, size);
  return kSuccess;
}

/// Checks that the pool can use what an upstream, or the driver, gave.
Status SegmentSource::check_segment(const Chunk& chunk, bool& overlaps) const {
  const auto refuse = [&](Status status, const char* why) {
    return fail(status, "the upstream gave 0x%" PRIx64 ", %s", chunk.address, why);
  };
  if (!AddressMap::covers(chunk.address, chunk.size)) {
    return refuse(GPUPOOL_ERROR_UNSUPPORTED, "which is not all below 2^48");
  }
  if (chunk.address % kUnit != 0) return refuse(GPUPOOL_ERROR_UNSUPPORTED, "which is not aligned to 512");
  for (const Region& region : rooms_.space.regions) {
    if (chunk.address < region.end() && region.base < chunk.address + chunk.size) {
      overlaps = true;
      return refuse(GPUPOOL_ERROR_UNSUPPORTED,
                    "which overlaps memory that it gave before and that is not yet freed");
    }
  }
  return kSuccess;
}

Status SegmentSource::release(Lock& lock, uint64_t target, bool is_asked_for, bool& blocked) {
  if (rooms_.options.is_child && !is_asked_for) return kSuccess;
  const Status status = free_idle(lock, target);
  blocked = blocked || (rooms_.ledger.used() > target && rooms_.space.free_chunks.bytes() != 0);
  return status;
}

/// A free segment that its stream has passed, of the largest class that has one; null if there is none.
Chunk* SegmentSource::find_idle() const noexcept {
  if (rooms_.captures.hold_all()) return nullptr;
  for (size_t at = SharedChunkLists::kClasses; at-- > 0;) {
    for (Chunk* chunk = rooms_.space.free_chunks.oldest(at); chunk != nullptr;
         chunk = SharedChunkLists::after(chunk)) {
      if (static_cast<StreamHeap*>(chunk->heap)->state().order.passed(chunk->epoch)) return chunk;
    }
  }
  return nullptr;
}

Status SegmentSource::free_idle(Lock& lock, uint64_t target) {
  rooms_.streams.next_round();
  while (rooms_.ledger.used() > target) {
    Chunk* chunk = find_idle();
    if (chunk == nullptr) return kSuccess;
    if (const Status status = free_segment(lock, chunk); status != kSuccess) return status;
  }
  return kSuccess;
}

Status SegmentSource::free_segment(Lock& lock, Chunk* chunk) {
  auto& heap = *static_cast<StreamHeap*>(chunk->heap);
  Heap::Aside aside;
  heap.remove_segment(chunk, aside);
  Status status = kSuccess;
  // Read here: without the lock, the stream may end, and another one may take its place.
  const Stream stream = heap.state().order.stream();
  rooms_.device.annotate(chunk->address, chunk->size, Standing::open);
  {
    lock.unlock();
    const Defer relock([&] { lock.lock(); });
    status = rooms_.device.deallocate(rooms_.options.kind, chunk->address, chunk->size, stream);
  }
  if (status != kSuccess) {
    rooms_.device.annotate(chunk->address, chunk->size, Standing::closed);
    heap.insert_segment(chunk, aside);
    return status;
  }
  rooms_.ledger.detached(heap.group(), chunk->size);
  rooms_.narrator.unmapped(heap, chunk->address, chunk->size);
  rooms_.ledger.released(chunk->size);
  rooms_.space.store.recycle(aside.front().first);
  rooms_.space.chunks.recycle(chunk);
  return kSuccess;
}

void SegmentSource::end(Lock& lock) {
  (void)free_idle(lock, 0);
}

}  // namespace gpupool::internal
