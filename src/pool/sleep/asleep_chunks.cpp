// SPDX-License-Identifier: Apache-2.0
#include "pool/sleep/asleep_chunks.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/policy.hpp"
#include "pool/memory/backing.hpp"
#include "pool/memory/pool_state.hpp"

namespace gpupool::internal {
namespace {

/// With such chunks, the driver's time is small even beside a drop.
constexpr uint64_t kCoarsest = policy::kLargestChunk;

}  // namespace

Status AsleepChunks::unmap_old() {
  Status status = kSuccess;
  pool_.backing.for_each_old([&](OldMapping& old) {
    if (status != kSuccess) return;
    status = pool_.device.unmap(Retention::of_sleep(), old.range->address, old.range->size);
    if (status != kSuccess) return;
    old.away = old.unmapped = true;
    ++old.chunk->old_unmapped;
    ++away_;
  });
  return status;
}

Status AsleepChunks::unmap_batch(const SleepPlan& plan, const SleepPlan::Batch& batch, const char* name) {
  if (batch.size != 0) {
    if (const Status status = pool_.device.unmap(Retention::of_sleep(), batch.start, batch.size);
        status != kSuccess)
      return status;
    pool_.device.raw().name_asleep(batch.start, batch.size, name);
  }
  for (size_t i = 0; i < batch.count; ++i) {
    Chunk& chunk = *plan.entries[batch.first + i].chunk;
    chunk.asleep = chunk.unmapped = true;
    chunk.alone = plan.is_part;
  }
  (plan.is_part ? alone_ : away_) += batch.count;
  return kSuccess;
}

void AsleepChunks::release_batch(const SleepPlan& plan, const SleepPlan::Batch& batch) noexcept {
  for (size_t i = 0; i < batch.count; ++i) release_chunk(*plan.entries[batch.first + i].chunk);
}

/// Releases the memory of an unmapped chunk. If the driver refuses, or an old mapping of it could not be
/// undone, the chunk keeps its memory, counted as before.
void AsleepChunks::release_chunk(Chunk& chunk) noexcept {
  if (chunk.old_unmapped != chunk.old_mappings) return;
  const KeepError keep_error;
  if (pool_.device.release_chunk(Retention::of_sleep(), chunk.handle) != kSuccess) return;
  chunk.handle = 0;
  if (chunk.heap != nullptr) {
    pool_.ledger.detached(chunk.heap->group(), chunk.size);
    pool_.log.unmapped(*static_cast<StreamHeap*>(chunk.heap), chunk.address, chunk.size);
  }
  pool_.ledger.released(chunk.size);
  bytes_ += chunk.size;
}

Status AsleepChunks::create(SleepPlan& plan, SleepPlan::Entry& entry) {
  Chunk& chunk = *entry.chunk;
  if (chunk.handle != 0) return kSuccess;
  if (const Status status = pool_.device.create_chunk(chunk.size, chunk.handle); status != kSuccess)
    return status;
  entry.created = true;
  pool_.ledger.created(chunk.size);
  if (chunk.heap != nullptr) {
    pool_.ledger.attached(chunk.heap->group(), chunk.size);
    pool_.log.mapped(*static_cast<StreamHeap*>(chunk.heap), chunk.address, chunk.size);
  }
  bytes_ -= chunk.size;
  plan.missing -= chunk.size;
  return kSuccess;
}

Status AsleepChunks::restore_batch(SleepPlan& plan, SleepPlan::Batch& batch) {
  for (size_t i = 0; i < batch.count; ++i) {
    SleepPlan::Entry& entry = plan.entries[batch.first + i];
    Chunk& chunk = *entry.chunk;
    if (const Status status = create(plan, entry); status != kSuccess) return status;
    if (batch.size == 0 || !chunk.unmapped) continue;
    if (const Status status = pool_.device.map(chunk.address, chunk.size, chunk.handle); status != kSuccess)
      return status;
    entry.mapped = true;
    chunk.unmapped = false;
  }
  return batch.size != 0 ? pool_.device.set_access(batch.start, batch.size) : kSuccess;
}

Status AsleepChunks::map_old() {
  Status status = kSuccess;
  pool_.backing.for_each_old([&](OldMapping& old) {
    if (status != kSuccess || !old.away) return;
    const Range& range = *old.range;
    if (old.unmapped) {
      status = pool_.device.map(range.address, range.size, old.chunk->handle);
      if (status != kSuccess) return;
      old.unmapped = false;
      --old.chunk->old_unmapped;
    }
    status = pool_.device.set_access(range.address, range.size);
    if (status != kSuccess) return;
    old.away = false;
    --away_;
  });
  return status;
}

void AsleepChunks::undo_restore(SleepPlan& plan, bool copies_pending) noexcept {
  const KeepError keep_error;
  pool_.backing.for_each_old([&](OldMapping& old) {
    if (old.unmapped || !old.chunk->asleep) return;
    if (pool_.device.unmap(Retention::of_sleep(), old.range->address, old.range->size) != kSuccess) return;
    old.unmapped = true;
    ++old.chunk->old_unmapped;
    if (!old.away) ++away_;
    old.away = true;
  });
  for (SleepPlan::Entry& entry : plan.entries) {
    Chunk& chunk = *entry.chunk;
    // What a copy may still be under way to stays mapped.
    if (entry.mapped && !copies_pending &&
        pool_.device.unmap(Retention::of_sleep(), chunk.address, chunk.size) == kSuccess)
      chunk.unmapped = true;
    if (entry.created && (chunk.unmapped || chunk.address == 0)) release_chunk(chunk);
  }
  pool_.ledger.budget().refund(plan.missing);
}

void AsleepChunks::commit(SleepPlan& plan) noexcept {
  for (const SleepPlan::Batch& batch : plan.batches) {
    if (batch.size != 0) pool_.device.raw().name_asleep(batch.start, batch.size, nullptr);
  }
  for (const SleepPlan::Entry& entry : plan.entries) {
    Chunk& chunk = *entry.chunk;
    --(chunk.alone ? alone_ : away_);
    chunk.asleep = chunk.unmapped = chunk.alone = false;
  }
}

void AsleepChunks::detach_freed() {
  std::vector<Chunk*> freed;
  for (const Region& region : pool_.space.regions) {
    for_each_chunk(region, [&](Chunk* chunk) {
      if (chunk->asleep && chunk->unmapped && chunk->users == 0 && chunk->old_mappings == 0 &&
          !pool_.retention.keeps_mapping(static_cast<StreamHeap*>(chunk->heap)->state())) {
        freed.push_back(chunk);
      }
    });
  }
  for (Chunk* chunk : freed) {
    pool_.space.store.reserve(2);
    if (chunk->handle != 0) release_chunk(*chunk);
    if (chunk->handle != 0) continue;
    chunk->heap->claim_chunk(chunk);
    Heap::reuse_retired(chunk->heap->detach(chunk));
    bytes_ -= chunk->size;
    --(chunk->alone ? alone_ : away_);
    pool_.space.chunks.recycle(chunk);
  }
}

void AsleepChunks::coarsen() noexcept {
  for (const Region& region : pool_.space.regions) {
    for (const Range* range = region.first; range != nullptr; range = range->next) {
      if (range->is(State::live)) coarsen(*range);
    }
  }
}

/// Sizes stay powers of two, so that the chunks fit other requests once they are free.
void AsleepChunks::coarsen(const Range& block) noexcept {
  if (block.size < policy::kBlockParts * 2 * kGranule) return;
  const Region& region = *block.region;
  const uint64_t own = pool_.options.max_chunk != 0 ? pool_.options.max_chunk : kCoarsest;
  const uint64_t most = std::min({floor_power_of_two(block.size / policy::kBlockParts), kCoarsest, own});
  std::array<Chunk*, kCoarsest / kGranule> run{};
  for (Address at = block.address; at < block.end();) {
    size_t count = 0;   // chunks from `at` on that may be one
    size_t merged = 0;  // so many of them make a power of two
    uint64_t size = 0;
    for (Address next = at; next < block.end(); next = run[count - 1]->end()) {
      Chunk* chunk = region.pages[region.page_of(next)];
      const bool is_own = chunk->asleep && chunk->unmapped && chunk->handle == 0 && chunk->users == 1 &&
                          chunk->old_mappings == 0 && chunk->address >= block.address &&
                          chunk->end() <= block.end();
      if (!is_own || size + chunk->size > most) break;
      if (count != 0 && chunk->alone != run[0]->alone) break;
      run[count++] = chunk;
      size += chunk->size;
      if (is_power_of_two(size)) merged = count;
    }
    if (merged > 1) {
      run[0]->heap->merge_chunks(run.data(), merged);
      for (size_t i = 1; i < merged; ++i) pool_.space.chunks.recycle(run[i]);
      (run[0]->alone ? alone_ : away_) -= merged - 1;
      at = run[0]->end();
    } else {
      at = region.pages[region.page_of(at)]->end();
    }
  }
}

void AsleepChunks::drop_freed(const Region& region, Address start, Address end) noexcept {
  for (Address at = start; at < end;) {
    const size_t page = region.page_of(at);
    Chunk* chunk = region.chunk_at(page);
    at = chunk != nullptr ? chunk->end() : at + kGranule - (at - region.base) % kGranule;
    if (chunk != nullptr && chunk->alone && chunk->users == 0) drop_alone(chunk);
  }
}

void AsleepChunks::drop_alone(Chunk* chunk) noexcept {
  auto& heap = *static_cast<StreamHeap*>(chunk->heap);
  pool_.device.raw().name_asleep(chunk->address, chunk->size, nullptr);
  if (!chunk->unmapped) {
    // A wake that failed could not undo its mapping. It is the heap's again, or goes if the driver lets it.
    chunk->asleep = chunk->alone = false;
    --alone_;
    (void)pool_.device.set_access(chunk->address, chunk->size);
    return;
  }
  if (chunk->handle != 0) {
    pool_.ledger.detached(heap.group(), chunk->size);
    pool_.log.unmapped(heap, chunk->address, chunk->size);
  }
  heap.claim_chunk(chunk);
  Heap::reuse_retired(heap.detach(chunk));
  end_chunk(chunk);
}

void AsleepChunks::end() noexcept {
  pool_.backing.forget_old_if([](const OldMapping& old) {
    if (!old.unmapped) return false;
    --old.chunk->old_unmapped;
    --old.chunk->old_mappings;
    return true;
  });
  for (Region& region : pool_.space.regions) end_region(region);
  pool_.backing.for_each_in_hand([&](Chunk* chunk) {
    if (!chunk->asleep || chunk->old_mappings != 0) return;
    pool_.backing.take_from_hand(chunk);
    end_chunk(chunk);
  });
  away_ = 0;
}

void AsleepChunks::end_region(Region& region) noexcept {
  for (size_t page = 0; page < region.pages.size();) {
    Chunk* chunk = region.pages[page];
    const size_t next = chunk != nullptr ? region.page_of(chunk->end()) : page + 1;
    if (chunk != nullptr && chunk->asleep && chunk->users == 0 && chunk->old_mappings == 0 &&
        (chunk->unmapped ||
         pool_.device.unmap(Retention::of_sleep(), chunk->address, chunk->size) == kSuccess)) {
      std::fill(region.pages.begin() + static_cast<ptrdiff_t>(page),
                region.pages.begin() + static_cast<ptrdiff_t>(next), nullptr);
      chunk->heap->claim_chunk(chunk);
      if (chunk->handle != 0) {
        auto& heap = *static_cast<StreamHeap*>(chunk->heap);
        pool_.ledger.detached(heap.group(), chunk->size);
        pool_.log.unmapped(heap, chunk->address, chunk->size);
      }
      chunk->heap = nullptr;
      end_chunk(chunk);
    }
    page = next;
  }
  pool_.device.raw().name_asleep(region.base, region.size, nullptr);
}

/// Ends an unmapped chunk that is in no list, and releases its memory if it still has any.
void AsleepChunks::end_chunk(Chunk* chunk) noexcept {
  if (chunk->alone) --alone_;
  chunk->asleep = chunk->unmapped = chunk->alone = false;
  if (chunk->handle != 0) {
    chunk->address = 0;
    (void)pool_.backing.release(Retention::of_end(), chunk);
    return;
  }
  bytes_ -= chunk->size;
  pool_.space.chunks.recycle(chunk);
}

}  // namespace gpupool::internal
