// SPDX-License-Identifier: Apache-2.0
#include "pool/request/reclaimer.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <mutex>
#include <span>
#include <utility>

#include "pool/cache/thread_slots.hpp"
#include "pool/memory/pool_state.hpp"

namespace gpupool::internal {

/// Frees to heaps what take(cache, most) takes from a cache, up to `most` blocks, and gives way to other
/// threads in between. Returns how many blocks that were.
template <typename Take>
size_t Reclaimer::drain_in_parts(PoolLock& lock, ThreadCache& cache, Take take, size_t most) {
  size_t drained = 0;
  for (bool is_empty = false; !is_empty && drained < most;) {
    const size_t part = std::min(Caches::kAtATime, most - drained);
    size_t left = part;
    free_all_to_heap(take(cache, left));
    drained += part - left;
    is_empty = left != 0;
    if (!is_empty) lock.give_way();
  }
  return drained;
}

bool Reclaimer::drain_larger(Stream stream, uint64_t bytes) noexcept {
  ThreadCache* cache = ThreadSlots::find(pool_.id);
  Range* block = cache != nullptr ? Caches::pop_larger(*cache, stream, bytes) : nullptr;
  if (block != nullptr) free_to_heap(*block);
  return block != nullptr;
}

bool Reclaimer::keeps_caches(SizeGroup group, uint64_t bytes) const noexcept {
  return pool_.surplus.keeps_caches_apart(group, bytes, pool_.caches);
}

// Caches may be added meanwhile, but none goes.

bool Reclaimer::drain_stream(PoolLock& lock, Stream stream, SizeGroup group, size_t most) {
  const ThreadCache* own = ThreadSlots::find(pool_.id);
  size_t of_others = 0;
  for (size_t i = 0; i < pool_.caches.count() && most != 0; ++i) {
    const auto take = [&](ThreadCache& cache, size_t& part) {
      return Caches::drain(cache, stream, group, part);
    };
    const size_t drained = drain_in_parts(lock, pool_.caches.at(i), take, most);
    if (&pool_.caches.at(i) != own) of_others += drained;
    most -= drained;
  }
  pool_.surplus.drained(group, of_others);
  return most == 0;
}

void Reclaimer::drain_lane(PoolLock& lock, ThreadCache& cache, Stream stream) {
  for (const SizeGroup group : {SizeGroup::large, SizeGroup::small}) {
    const size_t drained = drain_in_parts(lock, cache, [&](ThreadCache& each, size_t& part) {
      return Caches::drain(each, stream, group, part);
    });
    // One thread's misses hold nobody up.
    if (pool_.caches.count() > 1) pool_.surplus.drained(group, drained);
  }
}

void Reclaimer::drain_all(PoolLock& lock) {
  for (size_t i = 0; i < pool_.caches.count(); ++i) {
    drain_in_parts(lock, pool_.caches.at(i),
                   [](ThreadCache& cache, size_t& most) { return Caches::drain(cache, most); });
  }
}

void Reclaimer::drain_resting(PoolLock& lock, size_t most) {
  const ThreadCache* own = ThreadSlots::find(pool_.id);
  for (size_t i = 0; i < pool_.caches.count() && most != 0; ++i) {
    const auto take = [&](ThreadCache& cache, size_t& part) {
      return &cache == own ? Caches::drain(cache, part) : Caches::drain_resting(cache, part);
    };
    most -= drain_in_parts(lock, pool_.caches.at(i), take, most);
    pool_.caches.rest(pool_.caches.at(i));
  }
}

// Draining whole chunks. Blocks of a chunk lie anywhere in their stacks, which only lead down from the top.
// So the stacks go to a shelf, where nobody pops them; then what is freed of the cache's blocks in the chunk
// can be merged in the order of addresses, where they are. Their records stay on the shelf until it is
// drained.

bool Reclaimer::has_many_cached() const noexcept {
  const size_t blocks = pool_.space.map.blocks();
  if (blocks <= policy::kFewCached) return false;
  const size_t live = pool_.caches.live().blocks;
  const size_t cached = blocks - live - pool_.caches.pending().blocks;
  return cached > policy::kFewCached && cached >= policy::kCachedTimes * live;
}

bool Reclaimer::drain_chunks(PoolLock& lock, Stream first, uint64_t bytes) {
  ThreadCache* own = ThreadSlots::find(pool_.id);
  if (own == nullptr || !pool_.options.vmm || !has_many_cached()) return false;
  std::array<Stream, Lanes::kMost + 1> streams{first};
  size_t count = 1;
  own->lanes.for_each([&](const Lane& lane) { streams[count++] = lane.stream; });
  uint64_t found = 0;
  size_t in_vain = 0;
  for (size_t at = 0; at < count && in_vain < policy::kDrainLooks;) {
    if (!pool_.gate.is_awake()) return false;
    const uint64_t before = found;
    if (!drain_chunk(*own, streams[at], found)) {
      ++at;
      continue;
    }
    if (found >= bytes) return true;
    if (found == before) ++in_vain;
    lock.give_way();
  }
  return false;
}

/// Takes a block of a stream from the shelf, and frees it: with all of its chunk, if nothing else is in use
/// there. False: there is none.
bool Reclaimer::drain_chunk(ThreadCache& cache, Stream stream, uint64_t& found) noexcept {
  Range* block = nullptr;
  {
    const std::lock_guard lock(cache.lock);
    Lane* lane = cache.lanes.find(stream);
    if (lane == nullptr || !lane->bins.shelve()) return false;
    while ((block = lane->bins.pop_shelved()) != nullptr && block->is(State::unused))
      pool_.space.store.recycle(block);
    if (block == nullptr) return false;
    if (free_chunk(block, found)) return true;
  }
  free_to_heap(*block);
  return true;
}

/// Frees what touches the chunk of a block from the shelf, if all of that is on it too. Call it with the lock
/// of the block's owner.
bool Reclaimer::free_chunk(Range* block, uint64_t& found) noexcept {
  StreamHeap& heap = heap_of(*block);
  const Chunk& chunk = *block->region->chunk_at(block->region->page_of(block->address));
  const BlockOwner* const owner = block->owner();
  const auto rests = [&](const Range* range) {
    const Tag tag = range->now();
    return range->heap == &heap &&
           (tag.state() == State::hole || (tag.state() == State::cached && tag.owner() == owner));
  };
  Range* first = block;
  for (; first->address > chunk.address; first = first->prev) {
    if (!rests(first->prev)) return false;
  }
  const Range* last = block;
  for (; last->end() < chunk.end(); last = last->next) {
    if (!rests(last->next)) return false;
  }
  if (!pool_.space.store.try_reserve(2)) return false;
  const uint64_t stamp = heap.state().order.stamp();
  for (Range* range = first; range != nullptr && range->address < chunk.end(); range = range->next) {
    if (!range->is(State::cached)) continue;
    heap.state().uncovered += range->size;
    range = heap.free_listed(range, stamp);
  }
  pool_.space.store.recycle(block);
  found += chunk.size;
  return true;
}

size_t Reclaimer::settle_pending(bool all) {
  return settle_exports(all) + pool_.pending.settle(all, [this](Range& block) {
    ThreadCache& owner = *owner_of(block);
    {
      const std::lock_guard lock(owner.lock);
      owner.counters.remove_pending(group_of(block.size), block.requested(), block.size);
    }
    settle_passed(block);
  });
}

size_t Reclaimer::settle_exports(bool all) noexcept {
  size_t settled = 0;
  for (; Range* block = exports_.take_passed(all); ++settled) settle(*block);
  return settled;
}

size_t Reclaimer::settle_all_pending(PoolLock& lock) {
  size_t settled = 0;
  // A stream answers once a round, and the next block's epoch may be later than the one that it answered for.
  while (const size_t now = settle_pending(true)) {
    settled += now;
    if (pool_.pending.empty()) break;
    lock.give_way();
    pool_.streams.next_round();
  }
  return settled;
}

/// Waits for the events that there are, which holds nobody else up, and then, where they cover too little,
/// for all work. Takes a few streams at a time, so that it allocates nothing. States never go away; those
/// that come meanwhile have no work that was queued before.
Status Reclaimer::wait_for_streams(PoolLock& lock, const char* why, Extent extent) {
  const uint64_t start = pool_.device.now_ns();
  size_t waits = 0;
  const uint64_t wait = pool_.pending.begin_wait();
  if (wait != 0) extent = Extent::everything;
  bool is_covered = true;
  Status status = wait_for_events(lock, waits, is_covered);
  if (!is_covered) extent = Extent::everything;
  const Status rest = wait_for_uncovered(lock, extent, waits);
  if (rest != kSuccess) status = rest;
  pool_.pending.end_wait(wait, status == kSuccess);
  if (waits != 0) pool_.log.waited(pool_.device.now_ns() - start, waits, why);
  pool_.streams.next_round();
  return status;
}

Status Reclaimer::wait_for_events(PoolLock& lock, size_t& waits, bool& is_covered) {
  Status status = kSuccess;
  std::array<std::pair<StreamOrder*, StreamOrder::EpochEnd>, 16> ends;
  const size_t end = pool_.streams.all().size();
  for (size_t next = 0; next < end;) {
    size_t count = 0;
    for (; next < end && count < ends.size(); ++next) {
      StreamOrder& order = pool_.streams.all()[next]->order;
      StreamOrder::EpochEnd last;
      is_covered = order.begin_wait(last) && is_covered;
      if (last.event != 0) ends[count++] = {&order, last};
    }
    if (count == 0) continue;
    waits += count;
    std::array<bool, 16> waited{};
    lock.give_up_for([&] {
      for (size_t i = 0; i < count; ++i) {
        const Status done = pool_.device.synchronize(ends[i].second.event);
        waited[i] = done == kSuccess;
        if (done != kSuccess) status = done;
      }
    });
    for (size_t i = 0; i < count; ++i) ends[i].first->end_wait(ends[i].second, waited[i]);
  }
  return status;
}

/// One wait for all work of a context serves all its streams. The device's own context comes first if all
/// work counts, also that of streams which the pool has never seen.
Status Reclaimer::wait_for_uncovered(PoolLock& lock, Extent extent, size_t& waits) {
  Status status = kSuccess;
  bool waits_anyway = extent == Extent::everything;
  const size_t end = pool_.streams.all().size();
  for (size_t next = 0; next < end || waits_anyway;) {
    std::array<OpenEpoch, 64> open;
    size_t count = 0;
    for (; next < end && count < open.size(); ++next) {
      StreamOrder& order = pool_.streams.all()[next]->order;
      if (order.is_covered() && (extent == Extent::freed || order.is_retired())) continue;
      if (!order.knows_context() && order.meet() != kSuccess) continue;
      if (!order.is_retired() && order.capturing()) continue;  // what it has captured has yet to run
      open[count++] = {&order, order.context(), order.close_epoch()};
    }
    const std::span<OpenEpoch> rest(open.data(), count);
    if (waits_anyway) status = wait_for_context(lock, 0, rest, waits);
    waits_anyway = false;
    for (const OpenEpoch& each : rest) {
      if (each.order == nullptr) continue;
      if (const Status done = wait_for_context(lock, each.context, rest, waits); done != kSuccess)
        status = done;
    }
  }
  return status;
}

/// Takes the epochs of that context from the list.
Status Reclaimer::wait_for_context(PoolLock& lock, uint64_t context, std::span<OpenEpoch> open,
                                   size_t& waits) {
  ++waits;
  const Status status = lock.give_up_for([&] { return pool_.device.synchronize_all(context); });
  for (OpenEpoch& each : open) {
    if (each.order == nullptr || each.context != context) continue;
    if (status == kSuccess) each.order->pass(each.epoch);
    each.order = nullptr;
  }
  return status;
}

/// What is settled meanwhile, by any thread, has a later stamp than what it has waited for, so it waits again
/// until nothing is left.
Status Reclaimer::wait_for_frees(PoolLock& lock, const char* why, bool emptied) {
  constexpr int kMostRounds = 16;  // others may free without end
  for (int round = 0;; ++round) {
    drain_all(lock);
    const uint64_t settled = settled_;
    const Status status = wait_for_streams(lock, why, Extent::freed);
    (void)settle_all_pending(lock);
    if (status != kSuccess || round == kMostRounds) return status;
    // What debug modes queue when they see a free block is work again, also for other freed blocks.
    if (!release_kept(emptied) && settled_ == settled) return kSuccess;
  }
}

void Reclaimer::bound_unattributed(PoolLock& lock) {
  constexpr uint64_t kLeast = kGiB;
  constexpr uint64_t kParts = 4;
  if (pool_.pending.unattributed_bytes() < std::max(kLeast, pool_.ledger.used() / kParts)) return;
  (void)wait_for_frees(lock, "frees on unknown streams", false);
}

void Reclaimer::free_to_heap(Range& block) noexcept {
  if (block.is(State::unused)) return pool_.space.store.recycle(&block);
  StreamState& state = heap_of(block).state();
  state.uncovered += block.size;
  free_to_heap(block, state.order.stamp());
}

void Reclaimer::free_to_heap(Range& block, uint64_t epoch) noexcept {
  if (pool_.gate.is_alone(block.address)) return sleep_->take(block);
  heap_of(block).free(&block, epoch);
}

/// Whether exports or debug modes hold back a block that was freed.
bool Reclaimer::hold_back(Range& block) noexcept {
  ++settled_;
  if (exports_.keep(block)) return true;
  if (debug_ != nullptr) debug_->take(block);
  return debug_ != nullptr;
}

void Reclaimer::settle(Range& block) noexcept {
  if (!hold_back(block)) free_to_heap(block);
}

/// What its own stream has queued since the free cannot use the block.
void Reclaimer::settle_passed(Range& block) noexcept {
  if (!hold_back(block)) free_to_heap(block, heap_of(block).state().order.last_stamp());
}

void Reclaimer::free_all_to_heap(Range* first) noexcept {
  while (first != nullptr) {
    Range* next = first->link;
    free_to_heap(*first);
    first = next;
  }
}

Status Reclaimer::retire_stream(PoolLock& lock, const StreamUser& user, bool for_good) {
  const Stream stream = user.stream();
  for (const SizeGroup group : {SizeGroup::large, SizeGroup::small}) drain_stream(lock, stream, group);
  if (debug_ != nullptr) debug_->leave(stream);
  const bool is_known = pool_.streams.knows(stream);
  const Status status = pool_.streams.retire(user, for_good, [this](Stream leaving) {
    pool_.caches.for_each(
        [&](ThreadCache& cache) { free_all_to_heap(pool_.caches.close_lane(cache, leaving)); });
  });
  if (status == kSuccess && is_known)
    pool_.log.say("stream 0x%" PRIxPTR " is %s", stream, for_good ? "released" : "parked");
  return status;
}

}  // namespace gpupool::internal
