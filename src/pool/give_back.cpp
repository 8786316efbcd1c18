// SPDX-License-Identifier: Apache-2.0
// Giving memory back: to heaps from caches and pending frees, to the device from heaps.
#include <algorithm>
#include <cinttypes>

#include "pool/pool.hpp"

namespace gpupool {

/// Turns what a thread's cache keeps of a stream and group into holes.
void Pool::drain(ThreadCache& cache, Stream stream, Group group) {
  Block* list = nullptr;
  {
    const std::lock_guard lock(cache.lock);
    Lane& lane = cache.lane_of(stream);
    if (lane.stream != stream) return;
    list = lane.bins(group).drain();
  }
  give_list(list);
}

/// The same for all that it keeps.
void Pool::drain(ThreadCache& cache) {
  Block* list = nullptr;
  {
    const std::lock_guard lock(cache.lock);
    for (const Group group : {Group::large, Group::small}) {
      for (size_t i = cache.lanes.size(); i-- > 0;) list = cache.lanes[i].bins(group).drain(list);
    }
  }
  give_list(list);
}

void Pool::drain_stream(Stream stream, Group group) {
  for (const auto& cache : caches_) drain(*cache, stream, group);
}

void Pool::drain_all() {
  for (const auto& cache : caches_) drain(*cache);
}

/// Drains the calling thread's cache, and those whose threads have done nothing since this was last called.
/// Threads at work keep theirs: taking what they are about to use again would have them take it back from
/// each other without end, at a driver call a time.
void Pool::drain_resting() {
  const ThreadCache* own = ThreadSlots::find(id_);
  for (const auto& cache : caches_) {
    if (cache.get() != own) {
      const std::lock_guard lock(cache->lock);
      if (std::exchange(cache->touched, false)) continue;
    }
    drain(*cache);
  }
}

/// Turns freed blocks that every stream has passed into holes.
void Pool::settle_pending() {
  if (pending_.empty()) return;
  size_t kept = 0;
  bool published = false;
  for (size_t i = 0; i < pending_.size(); ++i) {
    Pending& entry = pending_[i];
    const bool passed = std::all_of(entry.uses.begin(), entry.uses.end(), [&](const auto& use) {
      return use.first->order.passed(use.second, tick_);
    });
    if (!passed) {
      if (kept != i) pending_[kept] = std::move(entry);
      ++kept;
      continue;
    }
    if (!published) publish_all();
    published = true;
    counters_.remove_pending(group_of(entry.block->size), entry.block->size);
    give(entry.block);
  }
  pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(kept), pending_.end());
}

/// Waits, without the lock, until every stream has passed what was queued when this was called.
Status Pool::wait_for_streams(Lock& lock) {
  std::vector<std::pair<StreamOrder*, StreamOrder::Mark>> marks;
  marks.reserve(streams_.size());
  Status status = kSuccess;
  for (const auto& state : streams_) {
    StreamOrder::Mark mark;
    const Status marked = state->order.mark(mark);
    if (marked != kSuccess) status = marked;
    if (mark.event != 0) marks.emplace_back(&state->order, mark);
  }
  lock.unlock();
  std::vector<bool> waited(marks.size(), false);
  for (size_t i = 0; i < marks.size(); ++i) {
    const Status done = driver_.synchronize(marks[i].second.event);
    waited[i] = done == kSuccess;
    if (done != kSuccess) status = done;
  }
  lock.lock();
  for (size_t i = 0; i < marks.size(); ++i) marks[i].first->settle(marks[i].second, waited[i]);
  ++tick_;
  return status;
}

/// Unmaps a claimed chunk and gives it back to the device. On failure it stays the pool's.
Status Pool::release_chunk(Chunk* chunk) {
  if (chunk->heap != nullptr) {
    auto* heap = static_cast<StreamHeap*>(chunk->heap);
    space_.store.reserve(2);
    in_hand_.reserve(in_hand_.size() + 1);
    if (const Status status = driver_.unmap(chunk->address, chunk->size); status != kSuccess) {
      heap->unclaim(chunk);
      return status;
    }
    Heap::restore(detach(chunk));
  }
  if (const Status status = driver_.release_chunk(chunk->handle); status != kSuccess) {
    in_hand_.push_back(chunk);
    return status;
  }
  reserved_.subtract(chunk->size);
  chunks_.subtract(1);
  budget_.put(chunk->size);
  delete chunk;
  return kSuccess;
}

/// Gives back one chunk: one in hand, else the oldest free one that is idle and has no old mapping left.
/// False if there is none; `blocked` says that one would be there once streams have passed.
bool Pool::release_oldest(bool& blocked, Status& status) {
  const auto unmapped = std::find_if(in_hand_.begin(), in_hand_.end(),
                                     [](const Chunk* chunk) { return chunk->old_mappings == 0; });
  if (unmapped != in_hand_.end()) {
    Chunk* chunk = *unmapped;
    in_hand_.erase(unmapped);
    status = release_chunk(chunk);
    return status == kSuccess;
  }
  blocked = blocked || !in_hand_.empty();
  StreamHeap* from = nullptr;
  Chunk* oldest = nullptr;
  for (const auto& state : streams_) {
    if (keeps_mappings(*state)) continue;
    for (StreamHeap& heap : state->heaps) {
      for (size_t size_class = 0; size_class < ChunkLists::kClasses; ++size_class) {
        for (Chunk* chunk = heap.free_chunks().oldest(size_class); chunk != nullptr; chunk = chunk->next) {
          if (oldest != nullptr && chunk->age > oldest->age) break;
          if (chunk->old_mappings != 0 || !state->order.passed(chunk->epoch, tick_)) {
            blocked = true;
            continue;
          }
          from = &heap;
          oldest = chunk;
          break;
        }
      }
    }
  }
  if (oldest == nullptr) return false;
  from->claim(oldest);
  status = release_chunk(oldest);
  return status == kSuccess;
}

/// Gives chunks back until no more than `target` is reserved or none is left; `blocked`: some were in use.
Status Pool::release_until(uint64_t target, bool& blocked) {
  unmap_retired();
  Status status = kSuccess;
  while (budget_.used() > target && release_oldest(blocked, status)) {
  }
  return status;
}

Status Pool::trim(uint64_t target, uint64_t& released) {
  Lock lock(mutex_);
  const uint64_t out = reserved_.out;
  ++tick_;
  drain_all();
  settle_pending();
  Status status = kSuccess;
  if (options_.vmm) {
    bool blocked = !pending_.empty();
    status = release_until(target, blocked);
    if (status == kSuccess && blocked && budget_.used() > target) {
      status = wait_for_streams(lock);
      drain_all();
      settle_pending();
      const Status rest = release_until(target, blocked);
      if (status == kSuccess) status = rest;
    }
  } else if (budget_.used() > target) {
    status = wait_for_streams(lock);
    settle_pending();
    const Status rest = free_segments(lock, target);
    if (status == kSuccess) status = rest;
  }
  released = reserved_.out - out;
  return status;
}

Status Pool::reserve(uint64_t target, Stream stream) {
  if (target > kSizeMax) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "%" PRIu64 " bytes are more than any device has", target);
  }
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  Lock lock(mutex_);
  ++tick_;
  StreamState* state = nullptr;
  if (const Status status = stream_state(stream, state); status != kSuccess) return status;
  const uint64_t used = budget_.used();
  if (used >= target) return kSuccess;
  const uint64_t missing = align_up(target - used, kGranule);
  if (missing > budget_.room()) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "reserving %" PRIu64 " bytes would go over the limit of %" PRIu64,
                target, budget_.limit());
  }
  if (!options_.vmm) return add_segment(lock, *state, Group::large, missing);
  StreamHeap& heap = state->heap(Group::large);
  std::array<Window, Heap::kMaxWindows> windows;
  size_t count = 0;
  if (const Status status = find_places(heap, missing, kUnit, windows, count); status != kSuccess)
    return status;
  Window window = windows[count - 1];
  Status status = kSuccess;
  Gap gap;
  while (status == kSuccess && budget_.used() < target) {
    if (!heap.next_gap(window, window.start, gap)) {
      // Part of the window was backed already, so the rest goes to addresses of its own.
      const uint64_t rest = align_up(target - budget_.used(), kGranule);
      if (status = add_region(heap, rest); status != kSuccess) break;
      window = windows[heap.plan(rest, kUnit, windows) - 1];
      continue;
    }
    in_hand_.reserve(in_hand_.size() + 1);
    Chunk* chunk = nullptr;
    const uint64_t size = ladder_.chunk_size(budget_.used(), missing, gap.size, gap.size);
    if (status = create_chunk(size, chunk); status != kSuccess) break;
    heap.prepare_attach(window.region, gap.address, chunk->size);
    const Gap piece{gap.address, chunk->size, chunk->size};
    retired_.reserve(retired_.size() + 1);
    status = map_pieces(piece, {{chunk, nullptr}}, window.region, heap);
    if (status == kSuccess) {
      attach(heap, window.region, gap.address, chunk, 0);
    } else {
      in_hand_.push_back(chunk);
    }
  }
  return status;
}

Status Pool::set_limit(uint64_t limit) {
  if (budget_.set_limit(limit)) return kSuccess;
  {
    Lock lock(mutex_);
    drain_all();
    if (!pending_.empty()) {
      if (const Status status = wait_for_streams(lock); status != kSuccess) return status;
      settle_pending();
    }
    if (const uint64_t floor = live_floor(); floor > limit) {
      return fail(GPUPOOL_ERROR_OVER_LIMIT,
                  "live blocks hold %" PRIu64 " bytes, more than a limit of %" PRIu64, floor, limit);
    }
  }
  uint64_t released = 0;
  if (const Status status = trim(limit, released); status != kSuccess) return status;
  if (budget_.set_limit(limit)) return kSuccess;
  return fail(GPUPOOL_ERROR_OVER_LIMIT, "%" PRIu64 " bytes are reserved, more than a limit of %" PRIu64,
              budget_.used(), limit);
}

}  // namespace gpupool
