// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/chunk_source.hpp"

#include <new>
#include <utility>

#include "pool/memory/growth.hpp"
#include "pool/memory/release.hpp"

namespace gpupool::internal {
namespace {

bool lies_high(const Chunk& chunk) {
  const StreamHeap& heap = *static_cast<const StreamHeap*>(chunk.heap);
  return chunk.region->page_of(chunk.address) > policy::kHighTimes * (heap.reserved() / kGranule) &&
         !heap.state().has_blocks();
}

}  // namespace

Status ChunkSource::grow(Lock&, const Request& request, bool capturing) {
  if (request.bytes > pool_.ledger.budget().limit())
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "the request is larger than the limit");
  if (request.bytes > pool_.device.info().total)
    return fail(GPUPOOL_ERROR_OUT_OF_MEMORY, "the request is larger than the device");
  return Growth(pool_, addresses_, request, capturing).run();
}

/// Backs free addresses of the stream's heap with new chunks.
Status ChunkSource::reserve(Lock&, StreamState& state, uint64_t target) {
  if (target > pool_.device.info().total)
    return fail(GPUPOOL_ERROR_OUT_OF_MEMORY, "the device has less in all");
  StreamHeap& heap = state.heap(SizeGroup::large);
  const uint64_t missing = align_up(target - pool_.ledger.used(), kGranule);
  Windows windows;
  size_t count = 0;
  const Status found = addresses_.find_places(heap, missing, kUnit, windows, count);
  if (found != kSuccess) return found;
  Window window = windows[count - 1];
  Gap gap;
  while (pool_.ledger.used() < target) {
    if (!heap.next_gap(window, window.start, gap)) {
      // Part of the window was backed already, so the rest goes to addresses of its own.
      const uint64_t rest = align_up(target - pool_.ledger.used(), kGranule);
      if (const Status status = addresses_.add_region(heap, rest); status != kSuccess) return status;
      count = heap.find_windows(rest, kUnit, windows);
      if (count == 0) return fail(GPUPOOL_ERROR_INTERNAL, "a new region of addresses has no room");
      window = windows[count - 1];
      continue;
    }
    const uint64_t size = pool_.sizer.chunk_size(pool_.ledger.used(), missing, gap.size, gap.size);
    const Status status = back_with_new(heap, window.region, gap, size);
    if (status != kSuccess) return status;
  }
  return kSuccess;
}

/// Backs the start of a gap with one new chunk.
Status ChunkSource::back_with_new(StreamHeap& heap, Region* region, const Gap& gap, uint64_t size) {
  heap.prepare_attach(region, gap.address, size);
  pool_.backing.reserve(1);
  std::vector<Piece> piece(1);
  if (const Status status = pool_.backing.create(size, piece[0].chunk); status != kSuccess) return status;
  const Status status = pool_.backing.map({gap.address, size, size}, piece, region, heap);
  if (status != kSuccess) {
    pool_.backing.unclaim(piece);
    return status;
  }
  pool_.backing.attach(heap, region, gap.address, piece[0].chunk, 0);
  return kSuccess;
}

Status ChunkSource::release(Lock& lock, uint64_t target, bool is_asked_for, bool& blocked) {
  return release_chunks(pool_, &lock, target, is_asked_for, blocked);
}

void ChunkSource::release_surplus(Lock& lock, uint64_t kept) noexcept {
  bool blocked = false;
  (void)pool_.backing.release_free(&lock, kept, Retention::Cause::need, blocked);
}

void ChunkSource::settle() noexcept {
  unmap_passed(pool_);
}

/// Within a capture chunks move to ever higher addresses, since those that they leave stay mapped, and the
/// next capture goes on from there. So chunks that captures left too high, with no blocks around them, are
/// moved to the bottom of their region.
void ChunkSource::lower() noexcept {
  if (pool_.retention.keeps_all(Retention::Cause::need)) return;
  try {
    std::vector<Piece> piece(1);
    for (size_t at = 0; at < SharedChunkLists::kClasses; ++at) {
      Chunk* next = pool_.space.free_chunks.oldest(at);
      for (size_t looked = 0; next != nullptr && looked < policy::kChunkLooks; ++looked) {
        piece[0] = {std::exchange(next, SharedChunkLists::after(next)), nullptr};
        if (lies_high(*piece[0].chunk)) lower_chunk(piece);
      }
    }
  } catch (const std::bad_alloc&) {
    // The chunks stay where they are until the next capture is released.
  }
  settle();
}

/// Moves a free chunk, if it is idle, to the lowest bare addresses of its heap that a few looks find.
void ChunkSource::lower_chunk(const std::vector<Piece>& piece) {
  Chunk* chunk = piece[0].chunk;
  auto& heap = *static_cast<StreamHeap*>(chunk->heap);
  Region* region = chunk->region;
  const auto fits = [&](const Range* range) {
    return range->heap == &heap && range->is(State::bare) && range->size >= chunk->size;
  };
  const Range* range = region->first;
  for (size_t looked = 0; looked < policy::kChunkLooks && !fits(range) && range->next != nullptr; ++looked)
    range = range->next;
  if (!fits(range) || range->address > chunk->address || !heap.state().order.passed(chunk->epoch)) return;
  const Address address = range->address;
  pool_.backing.reserve(2);
  if (pool_.backing.map({address, chunk->size, chunk->size}, piece, region, heap) != kSuccess) return;
  const uint64_t epoch = chunk->epoch;
  heap.claim_chunk(chunk);
  pool_.backing.move_away(chunk, heap, false);
  pool_.backing.attach(heap, region, address, chunk, epoch);
}

/// Chunks that could not be unmapped, because a stream captures or the driver refuses, keep their addresses.
void ChunkSource::end(Lock&) {
  pool_.streams.next_round();
  settle();
  pool_.backing.release_all();
  for (Region& region : pool_.space.regions) {
    if (region.size != 0 && pool_.backing.is_unmapped(region)) addresses_.release(region);
  }
}

}  // namespace gpupool::internal
