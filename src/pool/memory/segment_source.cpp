// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/segment_source.hpp"

#include <algorithm>
#include <cinttypes>

#include "base/defer.hpp"

namespace gpupool::internal {

Status SegmentSource::grow(Lock& lock, const Request& request, bool) {
  StreamState& state = request.state;
  Ledger& ledger = pool_.ledger;
  const SizeGroup group = group_of(request.bytes);
  const uint64_t least = request.hole();
  const uint64_t heap_bytes = group == SizeGroup::small ? state.heap(group).reserved() : ledger.used();
  const ChunkSizer& sizer = pool_.sizer;
  const uint64_t usual =
      std::max(align_up(least, kGranule), sizer.chunk_size(heap_bytes, least, least, sizer.max_chunk));
  if (const uint64_t most = most_reserved(); ledger.used() + usual > most) {
    // A segment that the driver does not take back stays cached. That is no reason to fail.
    const Ledger::Totals before = ledger.totals();
    (void)free_idle(lock, most - std::min(most, usual), Retention::Cause::need);
    pool_.log.released(before, "more than twice the live peak");
  }
  Status status = add_segment(lock, state, group, usual);
  if (!is_shortage(status)) return status;
  status = add_segment(lock, state, group, least);
  if (!is_shortage(status)) return status;
  // Cached segments that do not fit this request may make room for one that does.
  const ErrorRecord cause = last_error();
  const Ledger::Totals before = ledger.totals();
  const bool is_freed = free_idle(lock, target_for(status, least), Retention::Cause::need) == kSuccess;
  pool_.log.released(before, "for a segment of another size");
  if (!is_freed || ledger.totals().chunks_released == before.chunks_released) {
    last_error() = cause;
    return status;
  }
  return add_segment(lock, state, group, least);
}

/// When sizes drift, segments that fit no request any more would pile up without end. So idle segments are
/// released before more than this is reserved, at least twice the live peak. They are not released sooner,
/// since the driver's free may wait for the GPU.
uint64_t SegmentSource::most_reserved() noexcept {
  pool_.caches.fold(pool_.counters);
  const auto live = static_cast<double>(pool_.counters.peak_all().live.allocated);
  return static_cast<uint64_t>((1 + std::max(policy::kSegmentSlack, pool_.options.slack)) * live);
}

/// What may stay reserved after a segment of `bytes` was refused: if the pool's own limit refused it, what
/// leaves room for it; else nothing.
uint64_t SegmentSource::target_for(Status status, uint64_t bytes) const noexcept {
  const Budget& budget = pool_.ledger.budget();
  const uint64_t others = std::min(budget.used_by_others(), kSizeMax);
  const uint64_t limit = std::min(budget.own_limit(), kSizeMax);
  const bool is_own = status == GPUPOOL_ERROR_OVER_LIMIT && budget.own_room() < bytes;
  return is_own && limit > others + bytes ? limit - others - bytes : 0;
}

Status SegmentSource::reserve(Lock& lock, StreamState& state, uint64_t target) {
  return add_segment(lock, state, SizeGroup::large, align_up(target - pool_.ledger.used(), kGranule));
}

/// Allocates one segment, as a hole of the stream's heap.
Status SegmentSource::add_segment(Lock& lock, StreamState& state, SizeGroup group, uint64_t size) {
  const Kind kind = pool_.options.kind;
  Chunk* chunk = pool_.space.chunks.get();
  Defer recycle([&] { pool_.space.chunks.recycle(chunk); });
  if (!pool_.ledger.budget().charge(size)) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "a segment of %" PRIu64 " bytes would go over the limit", size);
  }
  Defer refund([&] { pool_.ledger.budget().refund(size); });
  const Stream stream = state.order.stream();
  Status status = lock.call_out([&] { return pool_.device.allocate(kind, size, stream, chunk->address); });
  if (status != kSuccess) return status;
  chunk->size = size;
  Defer free_it([&] {
    (void)lock.call_out(
        [&] { return pool_.device.deallocate(Retention::of_unused(), kind, chunk->address, size, stream); });
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
  pool_.log.mapped(heap, chunk->address, size);
  pool_.device.annotate(chunk->address, size, Accessibility::closed);
  recycle.cancel();
  pool_.ledger.created(size);
  pool_.ledger.attached(group, size);
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
  for (const Region& region : pool_.space.regions) {
    if (chunk.address < region.end() && region.base < chunk.address + chunk.size) {
      overlaps = true;
      return refuse(GPUPOOL_ERROR_UNSUPPORTED,
                    "which overlaps memory that it gave before and that is not yet freed");
    }
  }
  return kSuccess;
}

Status SegmentSource::release(Lock& lock, uint64_t target, bool is_asked_for, bool& blocked) {
  const Retention::Cause cause = is_asked_for ? Retention::Cause::request : Retention::Cause::need;
  if (pool_.retention.keeps_all(cause)) return kSuccess;
  const Status status = free_idle(lock, target, cause);
  blocked = blocked || (pool_.ledger.used() > target && pool_.space.free_chunks.bytes() != 0);
  return status;
}

/// A free segment that may go, of the largest class that has one; null if there is none.
Chunk* SegmentSource::find_idle(Retention::Cause cause, std::optional<Departure>& departure) const {
  if (pool_.retention.keeps_all(cause)) return nullptr;
  for (size_t at = SharedChunkLists::kClasses; at-- > 0;) {
    for (Chunk* chunk = pool_.space.free_chunks.oldest(at); chunk != nullptr;
         chunk = SharedChunkLists::after(chunk)) {
      departure = pool_.retention.release(*chunk, cause);
      if (departure) return chunk;
    }
  }
  return nullptr;
}

Status SegmentSource::free_idle(Lock& lock, uint64_t target, Retention::Cause cause) {
  pool_.streams.next_round();
  while (pool_.ledger.used() > target) {
    std::optional<Departure> departure;
    Chunk* chunk = find_idle(cause, departure);
    if (chunk == nullptr) return kSuccess;
    if (const Status status = free_segment(lock, chunk, *departure); status != kSuccess) return status;
  }
  return kSuccess;
}

Status SegmentSource::free_segment(Lock& lock, Chunk* chunk, const Departure& departure) {
  auto& heap = *static_cast<StreamHeap*>(chunk->heap);
  Heap::Aside aside;
  heap.remove_segment(chunk, aside);
  // Read here: without the lock, the stream may end, and another one may take its place.
  const Stream stream = heap.state().order.stream();
  pool_.device.annotate(chunk->address, chunk->size, Accessibility::open);
  const Status status = lock.call_out([&] {
    return pool_.device.deallocate(departure, pool_.options.kind, chunk->address, chunk->size, stream);
  });
  if (status != kSuccess) {
    pool_.device.annotate(chunk->address, chunk->size, Accessibility::closed);
    heap.insert_segment(chunk, aside);
    return status;
  }
  pool_.ledger.detached(heap.group(), chunk->size);
  pool_.log.unmapped(heap, chunk->address, chunk->size);
  pool_.ledger.released(chunk->size);
  pool_.space.store.recycle(aside.front().first);
  pool_.space.chunks.recycle(chunk);
  return kSuccess;
}

void SegmentSource::end(Lock& lock) {
  (void)free_idle(lock, 0, Retention::Cause::request);
}

}  // namespace gpupool::internal
