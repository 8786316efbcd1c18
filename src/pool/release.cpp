// SPDX-License-Identifier: Apache-2.0
// The way back of memory: drained from caches and settled from pending frees into heaps, then released by the
// source.
#include <algorithm>
#include <cinttypes>

#include "base/defer.hpp"
#include "pool/pool.hpp"

namespace gpupool::internal {

/// Frees to heaps what take(cache, most) takes from a cache, and gives way to other threads in between.
template <typename Take>
void Pool::drain_in_parts(Lock& lock, ThreadCache& cache, Take take) {
  for (size_t most = 0; most == 0;) {
    most = Caches::kAtATime;
    free_all_to_heap(take(cache, most));
    if (most == 0) lock.give_way();
  }
}

// Caches may be added meanwhile, but none goes.

void Pool::drain_stream(Lock& lock, Stream stream, SizeGroup group) {
  for (size_t i = 0; i < caches_.count(); ++i) {
    drain_in_parts(lock, caches_.at(i), [&](ThreadCache& cache, size_t& most) {
      return Caches::drain(cache, stream, group, most);
    });
  }
}

void Pool::drain_all(Lock& lock) {
  for (size_t i = 0; i < caches_.count(); ++i) {
    drain_in_parts(lock, caches_.at(i),
                   [](ThreadCache& cache, size_t& most) { return Caches::drain(cache, most); });
  }
}

/// Drains the calling thread's cache, and in other caches the bins that no malloc has touched since the last
/// call. Threads at work keep their blocks: else they would take from each other without end what they are
/// about to use again, at a driver call each time.
void Pool::drain_resting(Lock& lock) {
  const ThreadCache* own = ThreadSlots::find(id_);
  for (size_t i = 0; i < caches_.count(); ++i) {
    drain_in_parts(lock, caches_.at(i), [&](ThreadCache& cache, size_t& most) {
      return &cache == own ? Caches::drain(cache, most) : Caches::drain_resting(cache, most);
    });
    caches_.rest(caches_.at(i));
  }
}

/// Turns some of the freed blocks that every stream has passed into holes. With `all`, 0: none is left.
size_t Pool::settle_pending(bool all) {
  return exports_.settle(all) + pending_.settle(all, [this](Range& block) {
    ThreadCache& owner = *owner_of(block);
    {
      const std::lock_guard lock(owner.lock);
      owner.counters.remove_pending(group_of(block.size), block.requested(), block.size);
    }
    settle(block);
  });
}

/// Settles all of them, and gives way to other threads in between.
void Pool::settle_all_pending(Lock& lock) {
  // A stream answers once a round, and the next block's epoch may be later than the one that it answered for.
  while (settle_pending(true) != 0 && !pending_.empty()) {
    lock.give_way();
    streams_.next_round();
  }
}

/// Waits, without the lock, until every stream has passed what was queued when its turn came. Takes a few at
/// a time, so that it allocates nothing.
Status Pool::wait_for_streams(Lock& lock, const char* why) {
  Status status = kSuccess;
  const uint64_t start = device_.raw().now_ns();
  size_t waits = 0;
  std::array<std::pair<StreamOrder*, StreamOrder::EpochEnd>, 16> ends;
  // States never go away. Those that come meanwhile have no work that was queued before.
  const size_t end = streams_.all().size();
  for (size_t next = 0; next < end;) {
    size_t count = 0;
    for (; next < end && count < ends.size(); ++next) {
      StreamOrder& order = streams_.all()[next]->order;
      StreamOrder::EpochEnd last;
      const Status marked = order.begin_wait(last);
      if (marked != kSuccess) status = marked;
      if (last.event != 0) ends[count++] = {&order, last};
    }
    if (count == 0) continue;
    waits += count;
    lock.unlock();
    std::array<bool, 16> waited{};
    for (size_t i = 0; i < count; ++i) {
      const Status done = device_.synchronize(ends[i].second.event);
      waited[i] = done == kSuccess;
      if (done != kSuccess) status = done;
    }
    lock.lock();
    for (size_t i = 0; i < count; ++i) ends[i].first->end_wait(ends[i].second, waited[i]);
  }
  if (waits != 0) narrator_.waited(device_.raw().now_ns() - start, waits, why);
  streams_.next_round();
  return status;
}

Status Pool::trim(uint64_t target, uint64_t& released, const char* why) {
  Lock lock = enter();
  const Ledger::Standing before = ledger_.standing();
  const uint64_t out = ledger_.reserved().out;
  drain_all(lock);
  settle_all_pending(lock);
  if (debugger_ != nullptr) (void)debugger_->release_waiting();
  bool blocked = !pending_.empty();
  Status status = source_->release(lock, target, true, blocked);
  if (status == kSuccess && blocked && ledger_.used() > target) {
    status = wait_for_streams(lock, why);
    drain_all(lock);
    settle_all_pending(lock);
    const Status rest = source_->release(lock, target, true, blocked);
    if (status == kSuccess) status = rest;
  }
  released = ledger_.reserved().out - out;
  narrator_.released(before, why);
  return status;
}

Status Pool::reserve(uint64_t target, Stream stream) {
  if (target > kSizeMax) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "%" PRIu64 " bytes are more than any device has", target);
  }
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  Lock lock = enter();
  if (const Status status = sleeper_.admit(lock); status != kSuccess) return status;
  StreamState* state = nullptr;
  if (const Status status = streams_.find(stream, state); status != kSuccess) return status;
  const uint64_t used = ledger_.used();
  if (used >= target) return kSuccess;
  const uint64_t missing = align_up(target - used, kGranule);
  const Budget& budget = ledger_.budget();
  if (missing > budget.room() &&
      (company_.neighbours == nullptr || !ask_neighbours(lock, missing, company_.neighbours->wait_ns()))) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "reserving %" PRIu64 " bytes would go over the limit of %" PRIu64,
                target, budget.limit());
  }
  ++state->inside;
  const Defer leave([&] { --state->inside; });
  const Ledger::Standing before = ledger_.standing();
  const Status status = source_->reserve(lock, *state, target);
  if (status == kSuccess) narrator_.grew(before, *state, 0);
  return status;
}

Status Pool::set_limit(uint64_t limit) {
  const Status status = change_limit(limit);
  display_.show_again();
  return status;
}

Status Pool::change_limit(uint64_t limit) {
  if (options_.is_child) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the limit of a child pool is its parent's: set it there");
  }
  Budget& budget = ledger_.budget();
  uint64_t of_children = 0;  // child pools keep what they have
  if (budget.set_limit(limit)) return kSuccess;
  {
    Lock lock = enter();
    drain_all(lock);
    if (!pending_.empty()) {
      if (const Status status = wait_for_streams(lock, "a lower limit"); status != kSuccess) return status;
      settle_all_pending(lock);
    }
    const uint64_t used = ledger_.used();
    of_children = budget.used_by_others();
    // No thread's cache has any blocks now, so this is exact.
    if (const uint64_t floor = used - std::min(used, statistics_.releasable()); floor + of_children > limit) {
      return of_children == 0
                 ? fail(GPUPOOL_ERROR_OVER_LIMIT,
                        "live blocks hold %" PRIu64 " bytes, more than a limit of %" PRIu64, floor, limit)
                 : fail(GPUPOOL_ERROR_OVER_LIMIT,
                        "live blocks hold %" PRIu64 " bytes and child pools %" PRIu64
                        ", more than a limit of %" PRIu64,
                        floor, of_children, limit);
    }
  }
  uint64_t released = 0;
  if (const Status status = trim(limit - of_children, released, "a lower limit"); status != kSuccess)
    return status;
  if (budget.set_limit(limit)) return kSuccess;
  return fail(GPUPOOL_ERROR_OVER_LIMIT, "%" PRIu64 " bytes are reserved, more than a limit of %" PRIu64,
              budget.used() + budget.used_by_others(), limit);
}

}  // namespace gpupool::internal
