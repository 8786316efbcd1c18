// SPDX-License-Identifier: Apache-2.0
#include "pool/way_back.hpp"

#include <array>
#include <cinttypes>
#include <mutex>
#include <utility>

#include "pool/debugger.hpp"
#include "pool/exports.hpp"
#include "pool/pending.hpp"
#include "pool/rooms.hpp"
#include "pool/thread_slots.hpp"

namespace gpupool::internal {

/// Frees to heaps what take(cache, most) takes from a cache, and gives way to other threads in between.
template <typename Take>
void WayBack::drain_in_parts(QuietLock& lock, ThreadCache& cache, Take take) {
  for (size_t most = 0; most == 0;) {
    most = Caches::kAtATime;
    free_all_to_heap(take(cache, most));
    if (most == 0) lock.give_way();
  }
}

bool WayBack::drain_larger(Stream stream, uint64_t bytes) noexcept {
  ThreadCache* cache = ThreadSlots::find(rooms_.id);
  Range* block = cache != nullptr ? Caches::pop_larger(*cache, stream, bytes) : nullptr;
  if (block != nullptr) free_to_heap(*block);
  return block != nullptr;
}

// Caches may be added meanwhile, but none goes.

void WayBack::drain_stream(QuietLock& lock, Stream stream, SizeGroup group) {
  for (size_t i = 0; i < rooms_.caches.count(); ++i) {
    drain_in_parts(lock, rooms_.caches.at(i), [&](ThreadCache& cache, size_t& most) {
      return Caches::drain(cache, stream, group, most);
    });
  }
}

void WayBack::drain_all(QuietLock& lock) {
  for (size_t i = 0; i < rooms_.caches.count(); ++i) {
    drain_in_parts(lock, rooms_.caches.at(i),
                   [](ThreadCache& cache, size_t& most) { return Caches::drain(cache, most); });
  }
}

void WayBack::drain_resting(QuietLock& lock) {
  const ThreadCache* own = ThreadSlots::find(rooms_.id);
  for (size_t i = 0; i < rooms_.caches.count(); ++i) {
    drain_in_parts(lock, rooms_.caches.at(i), [&](ThreadCache& cache, size_t& most) {
      return &cache == own ? Caches::drain(cache, most) : Caches::drain_resting(cache, most);
    });
    rooms_.caches.rest(rooms_.caches.at(i));
  }
}

size_t WayBack::settle_pending(bool all) {
  return exports_.settle(all) + pending_.settle(all, [this](Range& block) {
    ThreadCache& owner = *owner_of(block);
    {
      const std::lock_guard lock(owner.lock);
      owner.counters.remove_pending(group_of(block.size), block.requested(), block.size);
    }
    settle(block);
  });
}

size_t WayBack::settle_all_pending(QuietLock& lock) {
  size_t settled = 0;
  // A stream answers once a round, and the next block's epoch may be later than the one that it answered for.
  while (const size_t now = settle_pending(true)) {
    settled += now;
    if (pending_.empty()) break;
    lock.give_way();
    rooms_.streams.next_round();
  }
  return settled;
}

/// Takes a few at a time, so that it allocates nothing.
Status WayBack::wait_for_streams(QuietLock& lock, const char* why) {
  Status status = kSuccess;
  const uint64_t start = rooms_.device.raw().now_ns();
  size_t waits = 0;
  std::array<std::pair<StreamOrder*, StreamOrder::EpochEnd>, 16> ends;
  // States never go away. Those that come meanwhile have no work that was queued before.
  const size_t end = rooms_.streams.all().size();
  for (size_t next = 0; next < end;) {
    size_t count = 0;
    for (; next < end && count < ends.size(); ++next) {
      StreamOrder& order = rooms_.streams.all()[next]->order;
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
      const Status done = rooms_.device.synchronize(ends[i].second.event);
      waited[i] = done == kSuccess;
      if (done != kSuccess) status = done;
    }
    lock.lock();
    for (size_t i = 0; i < count; ++i) ends[i].first->end_wait(ends[i].second, waited[i]);
  }
  if (waits != 0) rooms_.narrator.waited(rooms_.device.raw().now_ns() - start, waits, why);
  rooms_.streams.next_round();
  return status;
}

Status WayBack::wait_for_frees(QuietLock& lock, const char* why, bool emptied) {
  constexpr int kMostRounds = 16;  // others may free without end
  for (int round = 0;; ++round) {
    const Status status = wait_for_streams(lock, why);
    drain_all(lock);
    const size_t settled = settle_all_pending(lock);
    if (debugger_ == nullptr || status != kSuccess || round == kMostRounds) return status;
    // What debug modes queue when they see a free block is work again, also for other freed blocks.
    const bool released = emptied ? debugger_->empty_quarantine() : debugger_->release_waiting();
    if (settled == 0 && !released) return kSuccess;
  }
}

void WayBack::free_to_heap(Range& block) noexcept {
  if (sleeper_.is_alone(block.address)) return sleeper_.free_block(block);
  StreamHeap& heap = heap_of(block);
  heap.free(&block, heap.state().order.stamp());
}

void WayBack::settle(Range& block) noexcept {
  if (exports_.keep(block)) return;
  debugger_ != nullptr ? debugger_->settle(block) : free_to_heap(block);
}

void WayBack::free_all_to_heap(Range* first) noexcept {
  while (first != nullptr) {
    Range* next = first->link;
    free_to_heap(*first);
    first = next;
  }
}

Status WayBack::retire_stream(QuietLock& lock, Stream stream, bool for_good) {
  for (const SizeGroup group : {SizeGroup::large, SizeGroup::small}) drain_stream(lock, stream, group);
  if (debugger_ != nullptr) debugger_->look_at_freed(stream);
  const bool is_known = rooms_.streams.knows(stream);
  const Status status = rooms_.streams.retire(stream, for_good, [this](Stream leaving) {
    rooms_.caches.for_each(
        [&](ThreadCache& cache) { free_all_to_heap(rooms_.caches.close_lane(cache, leaving)); });
  });
  if (status == kSuccess && is_known)
    rooms_.narrator.say("stream 0x%" PRIxPTR " is %s", stream, for_good ? "released" : "parked");
  return status;
}

}  // namespace gpupool::internal
