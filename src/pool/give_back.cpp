// SPDX-License-Identifier: Apache-2.0
// Giving memory back: to heaps from caches and pending frees, to the device from heaps.
#include <algorithm>
#include <cinttypes>

#include "base/defer.hpp"
#include "base/reserve.hpp"
#include "pool/pool.hpp"

namespace gpupool::internal {

void Pool::drain_stream(Stream stream, Group group) {
  caches_.for_each([&](ThreadCache& cache) { give_list(Caches::drain(cache, stream, group)); });
}

void Pool::drain_all() {
  caches_.for_each([&](ThreadCache& cache) { give_list(Caches::drain(cache)); });
}

/// Drains the calling thread's cache, and of others' what nothing was taken from since this was last called.
/// Threads at work keep theirs: taking what they are about to use again would have them take it back from
/// each other without end, at a driver call a time.
void Pool::drain_resting() {
  const ThreadCache* own = ThreadSlots::find(id_);
  caches_.for_each([&](ThreadCache& cache) {
    if (&cache == own) give_list(Caches::drain(cache));
    give_list(caches_.drain_resting(cache));
  });
}

/// Turns freed blocks that every stream has passed into holes: some of them, or all.
void Pool::settle_pending(bool all) {
  const auto settle = [this](Range& block) {
    ThreadCache& owner = *owner_of(block);
    {
      const std::lock_guard lock(owner.lock);
      owner.counters.remove_pending(group_of(block.size), block.requested(), block.size);
    }
    give(block);
  };
  // A stream answers once a round, and what it is asked next may be later than what it answered.
  while (pending_.settle(all, settle) != 0 && all && !pending_.empty()) streams_.next_round();
}

/// Waits, without the lock, until every stream has passed what was queued when its turn came. A few at a
/// time, so that no memory is needed.
Status Pool::wait_for_streams(Lock& lock, const char* why) {
  Status status = kSuccess;
  const uint64_t start = device_.raw().now_ns();
  size_t waits = 0;
  std::array<std::pair<StreamOrder*, StreamOrder::Mark>, 16> marks;
  // States are never taken away; those that come meanwhile have nothing that was queued before.
  const size_t end = streams_.all().size();
  for (size_t next = 0; next < end;) {
    size_t count = 0;
    for (; next < end && count < marks.size(); ++next) {
      StreamOrder& order = streams_.all()[next]->order;
      StreamOrder::Mark mark;
      const Status marked = order.mark(mark);
      if (marked != kSuccess) status = marked;
      if (mark.event != 0) marks[count++] = {&order, mark};
    }
    if (count == 0) continue;
    waits += count;
    lock.unlock();
    std::array<bool, 16> waited{};
    for (size_t i = 0; i < count; ++i) {
      const Status done = device_.synchronize(marks[i].second.event);
      waited[i] = done == kSuccess;
      if (done != kSuccess) status = done;
    }
    lock.lock();
    for (size_t i = 0; i < count; ++i) marks[i].first->settle(marks[i].second, waited[i]);
  }
  if (waits != 0) tell_wait(device_.raw().now_ns() - start, waits, why);
  streams_.next_round();
  return status;
}

/// Unmaps a claimed chunk, or takes one that was in hand, and gives it back to the device. On failure it
/// stays the pool's.
Status Pool::release_chunk(Chunk* chunk) {
  if (chunk->heap != nullptr) {
    auto* heap = static_cast<StreamHeap*>(chunk->heap);
    Status status = space_.store.try_reserve(2) ? kSuccess
                                                : fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY,
                                                       "the host has no memory for the pool's records");
    if (status == kSuccess) status = device_.unmap(chunk->address, chunk->size);
    if (status != kSuccess) {
      heap->unclaim(chunk);
      return status;
    }
    Heap::restore(detach(chunk));
  }
  if (const Status status = device_.release_chunk(chunk->handle); status != kSuccess) {
    in_hand_.push_back(chunk);
    return status;
  }
  ledger_.released(chunk->size);
  delete chunk;
  return kSuccess;
}

/// Chunks in hand that have no old mapping left.
Status Pool::release_in_hand(uint64_t target, bool& blocked) {
  Chunk* next = nullptr;
  for (Chunk* chunk = in_hand_.first(); chunk != nullptr && ledger_.used() > target; chunk = next) {
    next = ChunkList::after(chunk);
    blocked = blocked || chunk->old_mappings != 0;
    if (chunk->old_mappings != 0) continue;
    in_hand_.remove(chunk);
    if (const Status status = release_chunk(chunk); status != kSuccess) return status;
  }
  return kSuccess;
}

/// Free chunks, those first that became free first, if they are idle and have no old mapping left. Each is
/// looked at once.
Status Pool::release_free(uint64_t target, bool& blocked) {
  std::array<Chunk*, SharedChunkLists::kClasses> next{};
  for (size_t at = 0; at < next.size(); ++at) next[at] = space_.free_chunks.oldest(at);
  while (ledger_.used() > target) {
    Chunk** oldest = nullptr;
    for (Chunk*& each : next) {
      if (each != nullptr && (oldest == nullptr || each->serial < (*oldest)->serial)) oldest = &each;
    }
    if (oldest == nullptr) return kSuccess;
    Chunk* chunk = *oldest;
    *oldest = SharedChunkLists::after(chunk);
    auto* heap = static_cast<StreamHeap*>(chunk->heap);
    if (chunk->old_mappings != 0 || !heap->state().order.passed(chunk->epoch)) {
      blocked = true;
      continue;
    }
    heap->claim(chunk);
    if (const Status status = release_chunk(chunk); status != kSuccess) return status;
  }
  return kSuccess;
}

/// Gives chunks back until no more than `target` is reserved or none is left; `blocked`: some were in use.
Status Pool::release_until(uint64_t target, bool& blocked, bool is_asked_for) {
  if (!sleeper_.is_awake()) return kSuccess;
  // What was settled just now is stamped later than what was asked about.
  streams_.next_round();
  unmap_retired();
  if (const Status status = release_in_hand(target, blocked); status != kSuccess) return status;
  // What a graph may use stays. In a capture-aware pool that is not shared.
  const bool stays = !captures_.empty() || (options_.is_child && !is_asked_for);
  return stays ? kSuccess : release_free(target, blocked);
}

/// The end: gives back what streams have passed. Needs no memory: nobody asks for ranges any more.
void Pool::unmap_all() noexcept {
  streams_.next_round();
  unmap_retired();
  bool blocked = false;
  (void)release_in_hand(0, blocked);
  for (Region& region : space_.regions) unmap_region(region);
}

void Pool::unmap_region(Region& region) noexcept {
  for (size_t page = 0; page < region.pages.size();) {
    Chunk* chunk = region.pages[page];
    if (chunk == nullptr) {
      ++page;
      continue;
    }
    const size_t end = page + chunk->size / kGranule;
    auto* heap = static_cast<StreamHeap*>(chunk->heap);
    if (chunk->users == 0 && chunk->old_mappings == 0 && heap->state().order.passed(chunk->epoch) &&
        device_.unmap(chunk->address, chunk->size) == kSuccess) {
      std::fill(region.pages.begin() + static_cast<ptrdiff_t>(page),
                region.pages.begin() + static_cast<ptrdiff_t>(end), nullptr);
      heap->claim(chunk);
      ledger_.detached(heap->group(), chunk->size);
      record_chunk(Happening::unmap, *heap, chunk->address, chunk->size);
      chunk->heap = nullptr;
      (void)release_chunk(chunk);
    }
    page = end;
  }
}

bool Pool::keeps_addresses(const std::vector<Retired>& entries, const Region& region) noexcept {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const Retired& entry) { return entry.range->region == &region; });
}

/// Whether nothing keeps a region's addresses: no chunk, and no old mapping.
bool Pool::is_unmapped(const Region& region) const noexcept {
  return std::all_of(region.pages.begin(), region.pages.end(),
                     [](const Chunk* chunk) { return chunk == nullptr; }) &&
         !keeps_addresses(retired_, region) && !keeps_addresses(kept_, region);
}

Status Pool::trim(uint64_t target, uint64_t& released, const char* why) {
  Lock lock = enter();
  const Standing before = standing();
  const uint64_t out = ledger_.reserved().out;
  drain_all();
  settle_pending(true);
  Status status = kSuccess;
  if (options_.vmm) {
    bool blocked = !pending_.empty();
    status = release_until(target, blocked, true);
    if (status == kSuccess && blocked && ledger_.used() > target) {
      status = wait_for_streams(lock, why);
      drain_all();
      settle_pending(true);
      const Status rest = release_until(target, blocked, true);
      if (status == kSuccess) status = rest;
    }
  } else if (ledger_.used() > target) {
    status = wait_for_streams(lock, why);
    settle_pending(true);
    const Status rest = free_segments(lock, target);
    if (status == kSuccess) status = rest;
  }
  released = ledger_.reserved().out - out;
  tell_given_back(before, why);
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
  if (missing > budget.room()) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "reserving %" PRIu64 " bytes would go over the limit of %" PRIu64,
                target, budget.limit());
  }
  ++state->inside;
  const Defer leave([&] { --state->inside; });
  const Standing before = standing();
  const Status status = options_.vmm ? reserve_chunks(state->heap(Group::large), target, missing)
                                     : add_segment(lock, *state, Group::large, missing);
  if (status == kSuccess) tell_growth(before, *state, 0);
  return status;
}

/// Backs free addresses of a heap with new chunks until `target` bytes are reserved, of which `missing` are
/// missing.
Status Pool::reserve_chunks(StreamHeap& heap, uint64_t target, uint64_t missing) {
  std::array<Window, Heap::kMaxWindows> windows;
  size_t count = 0;
  if (const Status status = find_places(heap, missing, kUnit, windows, count); status != kSuccess)
    return status;
  Window window = windows[count - 1];
  Gap gap;
  while (ledger_.used() < target) {
    if (!heap.next_gap(window, window.start, gap)) {
      // Part of the window was backed already, so the rest goes to addresses of its own.
      const uint64_t rest = align_up(target - ledger_.used(), kGranule);
      if (const Status status = add_region(heap, rest); status != kSuccess) return status;
      count = heap.plan(rest, kUnit, windows);
      if (count == 0) return fail(GPUPOOL_ERROR_INTERNAL, "a new region of addresses has no room");
      window = windows[count - 1];
      continue;
    }
    const uint64_t size = sizer_.chunk_size(ledger_.used(), missing, gap.size, gap.size);
    heap.prepare_attach(window.region, gap.address, size);
    reserve_more(retired_, 1);
    std::vector<Piece> piece(1);
    if (const Status status = create_chunk(size, piece[0].chunk); status != kSuccess) return status;
    const Gap part{gap.address, size, size};
    if (const Status status = map_pieces(part, piece, window.region, heap); status != kSuccess) {
      put_back(piece);
      return status;
    }
    attach(heap, window.region, gap.address, piece[0].chunk, 0);
  }
  return kSuccess;
}

Status Pool::set_limit(uint64_t limit) {
  if (options_.is_child) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the limit of a child pool is its parent's: set it there");
  }
  Budget& budget = ledger_.budget();
  uint64_t of_children = 0;  // which keep what they have
  if (budget.set_limit(limit)) return kSuccess;
  {
    Lock lock = enter();
    drain_all();
    if (!pending_.empty()) {
      if (const Status status = wait_for_streams(lock, "a lower limit"); status != kSuccess) return status;
      settle_pending(true);
    }
    const uint64_t used = ledger_.used();
    of_children = budget.used_by_others();
    // Nothing is in a thread's cache now, so that this is exact.
    if (const uint64_t floor = used - std::min(used, releasable()); floor + of_children > limit) {
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
