// SPDX-License-Identifier: Apache-2.0
#include "pool/observe/audit.hpp"

#include <array>
#include <cinttypes>
#include <string>

#include "pool/memory/exports.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/sleep/sleeper.hpp"

namespace gpupool::internal {

/// Whether the ledger's counts of chunks of each size are right.
bool Audit::is_counted_by_size() const {
  std::array<uint64_t, Ledger::kSizes> counts{};
  const auto count = [&](const Chunk* chunk) {
    if (!chunk->asleep || chunk->handle != 0) ++counts[log2_floor(chunk->size)];
  };
  for (const Region& region : pool_.space.regions) for_each_chunk(region, count);
  pool_.backing.for_each_in_hand(count);
  for (unsigned at = 0; at < Ledger::kSizes; ++at) {
    if (counts[at] != pool_.ledger.chunks_of_size(at)) return false;
  }
  return true;
}

Status Audit::run() const {
  const Caches::AllLocked locked(pool_.caches);
  std::string why;
  uint64_t in_chunks = 0;
  Amounts live;
  Heap::Census found;
  bool good = pool_.space.is_valid(why) && Heap::count(pool_.space, found, why);
  for (const auto& state : pool_.streams.all()) {
    for (const StreamHeap& heap : state->heaps) {
      good = good && heap.is_valid(found, why);
      in_chunks += heap.reserved();
    }
  }
  for (const Region& region : pool_.space.regions) {
    for (const Range* range = region.first; range != nullptr; range = range->next) {
      if (range->is(State::live)) live += {range->requested(), range->size, 1};
    }
  }
  Amounts counted;
  pool_.caches.for_each(
      [&](const ThreadCache& cache) { counted += cache.counters.live()[0] + cache.counters.live()[1]; });
  in_chunks += pool_.backing.bytes_in_hand();
  if (!good) return fail(GPUPOOL_ERROR_INTERNAL, "a heap is inconsistent: %s", why.c_str());
  if (counted != live) return fail(GPUPOOL_ERROR_INTERNAL, "counters differ from the live blocks");
  in_chunks -= sleeper_.asleep_bytes();
  // A pool that wakes is charged all that it needs before it creates the first chunk.
  const bool is_used =
      pool_.gate.is_awake() ? in_chunks == pool_.ledger.used() : in_chunks <= pool_.ledger.used();
  if (pool_.options.vmm && (in_chunks != pool_.ledger.reserved().current || !is_used)) {
    return fail(GPUPOOL_ERROR_INTERNAL, "reserved is %" PRIu64 ", chunks hold %" PRIu64,
                pool_.ledger.reserved().current, in_chunks);
  }
  // A segment on its way from or to the driver is counted, but in no heap.
  if (pool_.options.vmm && !is_counted_by_size())
    return fail(GPUPOOL_ERROR_INTERNAL, "chunks are not counted by their sizes");
  if (!pool_.caches.is_valid()) return fail(GPUPOOL_ERROR_INTERNAL, "a thread's lanes are inconsistent");
  return pool_.pending.is_valid() && exports_.is_valid()
             ? kSuccess
             : fail(GPUPOOL_ERROR_INTERNAL, "a pending block is not pending");
}

}  // namespace gpupool::internal
