// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/release.hpp"

#include "pool/memory/pool_state.hpp"

namespace gpupool::internal {
namespace {

/// Calls visit(chunk) for each chunk of each of the first blocks in threads' caches, which are locked.
template <typename Visit>
void visit_cached(const PoolState& pool, Visit visit) {
  constexpr size_t kBlocks = 1024;
  size_t blocks = 0;
  pool.caches.for_each([&](ThreadCache& cache) {
    cache.lanes.for_each([&](const Lane& lane) {
      if (blocks >= kBlocks) return;
      lane.bins.for_each([&](const Range* block) {
        if (!heap_of(*block).shares()) return true;
        for_chunks(*block->region, block->address, block->end(), visit);
        return ++blocks < kBlocks;
      });
    });
  });
}

}  // namespace

uint64_t releasable(const PoolState& pool) noexcept {
  uint64_t bytes = pool.backing.bytes_in_hand();
  if (pool.captures.hold_all() || !pool.gate.is_awake()) return bytes;
  bytes += pool.space.free_chunks.bytes();
  const Caches::AllLocked locked(pool.caches);
  visit_cached(pool, [&](Chunk* chunk) {
    if (++chunk->cached_users == chunk->users) bytes += chunk->size;
  });
  visit_cached(pool, [](Chunk* chunk) { chunk->cached_users = 0; });
  return bytes;
}

Status release_chunks(PoolState& pool, PoolLock* lock, uint64_t target, bool is_asked_for, bool& blocked) {
  // Blocks settled just now have later stamps than those that the driver was asked about.
  pool.streams.next_round();
  unmap_passed(pool);
  const Retention::Cause cause = is_asked_for ? Retention::Cause::request : Retention::Cause::need;
  if (const Status status = pool.backing.release_in_hand(lock, target, cause, blocked); status != kSuccess)
    return status;
  return pool.backing.release_free(lock, target, cause, blocked);
}

void unmap_passed(PoolState& pool) noexcept {
  pool.backing.unmap_passed(Retention::Cause::need);
}

}  // namespace gpupool::internal
