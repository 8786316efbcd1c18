// SPDX-License-Identifier: Apache-2.0
// From the request to the block, top to bottom.
#include "pool/request/slow_malloc.hpp"

#include <algorithm>
#include <cinttypes>
#include <mutex>
#include <string>

#include "base/defer.hpp"
#include "base/size_text.hpp"
#include "pool/cache/thread_slots.hpp"
#include "pool/memory/blocks.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/memory/run_stealer.hpp"
#include "pool/memory/source.hpp"
#include "pool/request/reclaimer.hpp"
#include "pool/request/shortage.hpp"
#include "pool/request/watcher.hpp"

namespace gpupool::internal {

Status SlowMalloc::malloc(uint64_t size, uint64_t alignment, StreamUser user, Address& address,
                          WatchedCall& seen, const Address* behind) {
  if (size == 0) {
    address = 0;
    return kSuccess;
  }
  if (const Status status = check_stream(user); status != kSuccess) return status;
  if (!is_valid_size(size)) {
    const PoolLock lock = pool_.look();
    return explain(fail(GPUPOOL_ERROR_OUT_OF_MEMORY, "the request is larger than any device"), size);
  }
  // Taken now: what serves this malloc may call another pool, whose cache then takes this one's slot.
  ThreadCache& cache = *ThreadSlots::find(pool_.id);
  PoolLock lock = pool_.enter();
  Gate::WaitingMalloc waiting(pool_.gate);
  if (const Status status = waiting.admit(lock); status != kSuccess) return status;
  StreamState* state = nullptr;
  if (const Status status = pool_.streams.find(user, state); status != kSuccess) return status;
  ++state->inside;
  const Defer leave([&] { --state->inside; });
  pool_.pending.prepare();
  Range* block = nullptr;
  Request request{user, *state, allocated_size(size), alignment};
  if (behind != nullptr) {
    if (const Status status = find_place(lock, *behind, request); status != kSuccess) return status;
  }
  const Status status = provide(lock, waiting, request, block);
  pool_.streams.leave_event(user, *state);  // behind what caches held, too
  if (status != kSuccess) return status;
  address = block->address;
  assign_block(block, cache, size, seen);
  if (&heap_of(*block).state() != state) lend(*block, *state);
  return kSuccess;
}

/// What caches keep there becomes free. The lock is given up until the block is there: then it may not be so
/// any more.
Status SlowMalloc::find_place(PoolLock& lock, Address behind, Request& request) {
  StreamHeap& heap = request.heap();
  if (!reclaimer_.keeps_caches(heap.group(), request.hole()))
    (void)reclaimer_.drain_stream(lock, heap.lane_stream(), heap.group(), policy::kDrainBlocks);
  if (behind == 0) return source_.find_room(heap, request.bytes, request.at);
  const Range* block = find_live(pool_.space, behind);
  if (block == nullptr) return not_a_block(pool_.space, behind);
  request.at = block->end();
  Window window;
  if (heap.find_window(request.at, request.bytes, window)) return kSuccess;
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "there are no %" PRIu64 " free bytes behind 0x%" PRIx64,
              request.bytes, behind);
}

/// While the pool falls asleep, all memory stays where it is. A malloc that was on its way and got none then
/// begins again.
Status SlowMalloc::provide(PoolLock& lock, Gate::WaitingMalloc& waiting, const Request& request,
                           Range*& block) {
  constexpr int kMostTries = 16;
  for (int tries = 1;; ++tries) {
    const uint64_t falls = pool_.gate.falls;
    const Status status = find_or_grow(lock, waiting, request, block);
    if (!is_shortage(status)) return status;
    if (pool_.gate.falls == falls || tries == kMostTries) return explain(status, request.bytes);
    if (const Status admitted = waiting.admit(lock); admitted != kSuccess) return admitted;
  }
}

Status SlowMalloc::find_or_grow(PoolLock& lock, Gate::WaitingMalloc& waiting, const Request& request,
                                Range*& block) {
  const uint64_t reserved = pool_.ledger.used();
  block = allocate_from_heap(lock, request);
  if (block != nullptr) return kSuccess;
  // A failure changes nothing: however this function ends, what it created in vain does not stay.
  const auto release_again = [&] {
    const KeepError keep_error;
    const Ledger::Totals before = pool_.ledger.totals();
    bool blocked = false;
    (void)source_.release(lock, reserved, false, blocked);
    pool_.log.released(before, "created for a malloc that fails");
  };
  Defer on_failure(release_again);
  Status status = grow(lock, request, false, block);
  if (is_shortage(status)) {
    ++pool_.shortages.retries;
    pool_.surplus.ran_short();
    waiting.leave();  // it may wait for the pool's own sleep
    const auto retry = [&](Range*& found) { return grow(lock, request, true, found); };
    status = shortage_.relieve(lock, request, retry, status, block);
  }
  if (status == kSuccess) on_failure.cancel();
  return status;
}

/// Allocates from what the stream's heap has. Blocks that caches keep split its holes, so they are drained
/// where it matters: always before a large block, whose best fit needs whole holes (0.7 instead of 7 per cent
/// of waste on a training run), and before a small one only when nothing fits, beginning with one block that
/// is large enough. Of many blocks only some at a time, until the request fits: draining all takes long.
Range* SlowMalloc::allocate_from_heap(PoolLock& lock, const Request& request) {
  const SizeGroup group = request.heap().group();
  const Stream stream = request.heap().lane_stream();
  bool has_more = !reclaimer_.keeps_caches(group, request.hole());
  const auto drain = [&] { has_more = reclaimer_.drain_stream(lock, stream, group, policy::kDrainBlocks); };
  if (has_more && group == SizeGroup::large) drain();
  if (Range* block = take(request, false)) return block;
  if (has_more && group == SizeGroup::small && reclaimer_.drain_larger(stream, request.bytes)) {
    if (Range* block = take(request, false)) return block;
  }
  constexpr int kDrainTurns = 256;  // other threads may free as quickly as this drains
  const auto turns_alone = static_cast<int>(policy::kDrainMost / policy::kDrainBlocks);
  for (int turn = 1; has_more && turn <= kDrainTurns; ++turn) {
    drain();
    if (Range* block = take(request, false)) return block;
    if (turn != turns_alone) continue;
    // Not sooner: what stays on the shelf serves no more hits.
    if (group == SizeGroup::small && reclaimer_.drain_chunks(lock, stream, request.hole())) {
      if (Range* block = take(request, false)) return block;
    }
    if (pool_.surplus.spares_draining(request.bytes)) break;
  }
  return reclaimer_.settle_pending() != 0 ? take(request, false) : nullptr;
}

/// Nothing if the pool has fallen asleep since the malloc was admitted: the lock was given up.
Range* SlowMalloc::take(const Request& request, bool last) {
  if (!pool_.gate.is_awake()) return nullptr;
  StreamHeap& heap = request.heap();
  return request.at != 0 ? heap.allocate_at(request.at, request.bytes)
                         : heap.allocate(request.bytes, request.alignment, last);
}

/// It tries again because another thread may have been quicker while the lock was given up.
Status SlowMalloc::grow(PoolLock& lock, const Request& request, bool last, Range*& block) {
  if (const Status status = pool_.gate.admit(lock); status != kSuccess) return status;
  const bool has_surplus = pool_.surplus.is_due();
  if (!reclaimer_.keeps_caches(request.heap().group(), request.hole()) &&
      // Surplus that caches hold would stay.
      (has_surplus || !reclaimer_.drain_chunks(lock, request.heap().lane_stream(), request.hole()))) {
    const bool needs_all = has_surplus || last || !pool_.surplus.spares_draining(request.bytes);
    reclaimer_.drain_resting(lock, needs_all ? Reclaimer::kAll : policy::kDrainMost);
  }
  reclaimer_.bound_unattributed(lock);
  const bool capturing = pool_.captures.note(request.state, request.user);
  // Others' memory may be had by following them.
  if (pool_.streams.count() > 1 && !capturing) pool_.streams.mark(request.user, request.state);
  if (has_surplus) release_surplus(lock);
  for (int tries = 0; tries < 16; ++tries) {
    if (last) {
      reclaimer_.settle_all_pending(lock);
    } else {
      reclaimer_.settle_pending();
    }
    // The lock was given up: the pool may be asleep.
    if (const Status status = pool_.gate.admit(lock); status != kSuccess) return status;
    block = take(request, last);
    if (block != nullptr) return kSuccess;
    const uint64_t largest = std::max(source_.largest_run(request.hole()), kGranule);
    if (request.at == 0 && run_stealer_.steal(request, largest, last)) continue;
    const Ledger::Totals before = pool_.ledger.totals();
    const Status status = source_.grow(lock, request, capturing);
    if (status != kSuccess) return status;
    pool_.log.grew(before, request.state, request.bytes);
  }
  return fail(GPUPOOL_ERROR_OUT_OF_MEMORY, "other threads took the memory that this request needed");
}

/// Once in a window of time, when a capture that uses the pool is known, and before the request has a block:
/// the lock is given up meanwhile. Streams that are used no more leave no events, so what they had may need a
/// wait.
void SlowMalloc::release_surplus(PoolLock& lock) {
  const uint64_t kept = pool_.surplus.kept();
  const uint64_t before = pool_.ledger.used();
  if (before <= kept + policy::kMaxChunk) return;  // whole chunks go
  const Defer note([&] { pool_.surplus.gave_back(before); });
  source_.release_surplus(lock, kept);
  if (pool_.ledger.used() <= pool_.surplus.entitled() || pool_.retention.keeps_all(Retention::Cause::need))
    return;
  (void)reclaimer_.wait_for_streams(lock, "surplus", Reclaimer::Extent::freed);
  source_.release_surplus(lock, kept);
}

void SlowMalloc::assign_block(Range* block, ThreadCache& cache, uint64_t requested,
                              WatchedCall& seen) noexcept {
  const Stream stream = heap_of(*block).lane_stream();
  const uint64_t bytes = block->size;
  const SizeGroup group = group_of(bytes);
  Lane* lane = cache.lanes.find(stream);
  if (lane == nullptr && keeps_lanes_) {
    reclaimer_.free_all_to_heap(pool_.caches.open_lane(cache, stream));
    lane = cache.lanes.find(stream);
  }
  Range* surplus = nullptr;
  bool due = false;
  const bool keeps = lane != nullptr && reclaimer_.keeps_caches(group, 0);
  {
    const std::lock_guard lock(cache.lock);
    block->tag.store(Tag::of_block(State::live, &cache, bytes - requested), std::memory_order_release);
    due = cache.counters.add(group, requested, bytes);
    ++cache.counters.misses;
    watcher_.see_malloc(cache, *block, seen);
    if (lane != nullptr) {
      lane->bins.touch(group);
      if (!keeps) surplus = lane->bins.pop_surplus(group);
    }
  }
  reclaimer_.free_all_to_heap(surplus);
  if (due) pool_.caches.fold(pool_.counters);
}

/// The block is of another stream's heap (Shortage::borrow), and goes back there once the borrower has
/// passed.
void SlowMalloc::lend(Range& block, StreamState& borrower) noexcept {
  const std::lock_guard lock(owner_of(block)->lock);
  block.begin_notes();
  pool_.pending.add_use(block, &borrower);
}

/// The message names whose limit holds.
std::string SlowMalloc::what_is_short(Status status, uint64_t bytes) const {
  if (status != GPUPOOL_ERROR_OVER_LIMIT) {
    if (pool_.shortages.no_addresses) return "this process has no addresses left for it";
    return pool_.options.kind == Kind::pinned ? "the host is out of memory" : "the device is out of memory";
  }
  const Budget& budget = pool_.ledger.budget();
  if (pool_.group.limit != nullptr && bytes <= budget.own_room())
    return "over the group's limit of " + size_text(pool_.group.limit->member().limit());
  const char* const name = budget.bound_by();
  const std::string limit = size_text(budget.own_limit());
  return name != nullptr ? std::string("over the limit of ") + name + ", " + limit
                         : "over the pool's limit of " + limit;
}

Status SlowMalloc::explain(Status status, uint64_t bytes) {
  ++pool_.shortages.failed_mallocs;
  const int32_t driver_code = last_error().driver_code;
  const std::string readable = bytes < 1024 ? "" : " (" + size_text(bytes) + ")";
  (void)fail_driver(status, driver_code, "malloc of %" PRIu64 " bytes%s failed: %s", bytes, readable.c_str(),
                    what_is_short(status, bytes).c_str());
  return status;
}

}  // namespace gpupool::internal
