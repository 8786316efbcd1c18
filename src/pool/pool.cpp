// SPDX-License-Identifier: Apache-2.0
// Hands blocks out and takes them back: the calls that every program makes all the time. The others, and how
// a pool begins and ends, are in pool_calls.cpp.
#include "pool/pool.hpp"

#include "pool/observe/holders.hpp"

namespace gpupool::internal {

// ---- the hot path: no driver call, no allocation, no lock but the thread's own. Rare cases are tail calls
// of functions of their own, so that the common way saves no registers.

Status Pool::malloc(uint64_t size, uint64_t alignment, Stream stream, Address& address) {
  ThreadCache* cache = ThreadSlots::find(state_.id);
  if (cache == nullptr && is_valid_size(size)) [[unlikely]]
    return malloc_first(size, alignment, stream, address);
  if (alignment > kUnit || !is_valid_size(size)) [[unlikely]]
    return malloc_slow(size, alignment, stream, address);
  if (!cache->lock.try_lock()) [[unlikely]]
    return malloc_contended(*cache, size, stream, address);
  return malloc_locked(*cache, size, stream, address);
}

/// The thread's first malloc. Its cache may be one that an ended thread has left, with blocks in it.
[[gnu::noinline, gnu::cold]] Status Pool::malloc_first(uint64_t size, uint64_t alignment, Stream stream,
                                                       Address& address) {
  open_cache();
  const Status status = malloc(size, alignment, stream, address);
  // A destructor of this thread may call the pool after ours has run, and ours may not get another round.
  if (ThreadSlots::is_ending()) ThreadSlots::forget(state_.id);
  return status;
}

/// Called with the cache's lock, which it gives up. Looks only in the stream's home slot.
[[gnu::always_inline]] inline Status Pool::malloc_locked(ThreadCache& cache, uint64_t size, Stream stream,
                                                         Address& address) {
  const Lanes::Slot& slot = cache.lanes.home(stream);
  Range* block = slot.stream == stream ? slot.lane->bins.pop(size) : nullptr;
  if (block == nullptr) [[unlikely]]
    return malloc_probing(cache, size, stream, address);
  return malloc_cached(cache, *block, size, address);
}

/// The same for a stream in another slot, and the end for one that was in its own.
[[gnu::noinline]] Status Pool::malloc_probing(ThreadCache& cache, uint64_t size, Stream stream,
                                              Address& address) {
  Lane* lane = cache.lanes.find_elsewhere(stream);
  Range* block = lane != nullptr ? lane->bins.pop(size) : nullptr;
  if (block != nullptr) return malloc_cached(cache, *block, size, address);
  cache.lock.unlock();
  if (stream == kLegacyStream) return malloc(size, kUnit, 0, address);
  return malloc_slow(size, kUnit, stream, address);
}

[[gnu::always_inline]] inline Status Pool::malloc_cached(ThreadCache& cache, Range& block, uint64_t size,
                                                         Address& address) {
  const uint64_t bytes = block.size;
  block.set(Tag::of_block(State::live, &cache, bytes - size));
  address = block.address;
  if (cache.counters.count(group_of(bytes), size, bytes)) [[unlikely]]
    return raise_peak(cache, block, address);
  cache.lock.unlock();
  return kSuccess;
}

[[gnu::noinline, gnu::cold]] Status Pool::malloc_contended(ThreadCache& cache, uint64_t size, Stream stream,
                                                           Address& address) {
  cache.lock.lock();
  return malloc_locked(cache, size, stream, address);
}

/// Ends a malloc that may have raised a peak, or that is watched.
[[gnu::noinline]] Status Pool::raise_peak(ThreadCache& cache, Range& block, Address& address) {
  idle_.begin_anew();
  const bool due = cache.counters.raise(group_of(block.size));
  WatchedCall seen;
  watcher_.see_malloc(cache, block, seen);
  cache.lock.unlock();
  watcher_.tell_malloc(seen);
  if (due) {
    const Lock lock(state_.mutex, &display_);
    state_.caches.fold(state_.counters);
  }
  if (debugger_ != nullptr) debugger_->guard(StreamUser(seen.stream), seen, kUnit, address);
  return kSuccess;
}

Status Pool::free(Address address, Stream stream) {
  if (address == 0) return kSuccess;
  Range* block = state_.space.map.find(address);
  const Tag tag = block != nullptr ? block->tag.load(std::memory_order_acquire) : Tag{};
  if (!tag.is_plain_live()) [[unlikely]]
    return free_slow(address, stream);
  if (!static_cast<ThreadCache*>(tag.owner())->lock.try_lock()) [[unlikely]]
    return free_contended(*block, tag, address, stream);
  return free_locked(*block, tag, address, stream);
}

/// Called with the lock of the block's owner, which it gives up. Under that lock a live block cannot change.
/// If it is no longer the live block of the stream that was seen, the free takes the long way.
[[gnu::always_inline]] inline Status Pool::free_locked(Range& block, Tag tag, Address address,
                                                       Stream stream) {
  auto& cache = static_cast<ThreadCache&>(*tag.owner());
  if (block.now() != tag || block.address != address || heap_of(block).lane_stream() != stream) [[unlikely]] {
    cache.lock.unlock();
    return free_slow(address, stream);
  }
  const uint64_t bytes = block.size;
  const SizeGroup group = group_of(bytes);
  const Lanes::Slot& slot = cache.lanes.home(stream);
  if (slot.stream != stream) [[unlikely]]
    return free_probing(block, tag, stream);
  if (slot.lane->push(&block, bytes)) [[unlikely]]
    return free_marked(block, tag, *slot.lane);
  return free_cached(block, tag, group, bytes);
}

/// The same, for a stream that is not in its home slot.
[[gnu::noinline]] Status Pool::free_probing(Range& block, Tag tag, Stream stream) {
  auto& cache = static_cast<ThreadCache&>(*tag.owner());
  Lane* lane = cache.lanes.find(stream);
  if (lane == nullptr) {
    const Address address = block.address;
    cache.lock.unlock();
    return free_slow(address, stream);
  }
  const uint64_t bytes = block.size;
  if (lane->push(&block, bytes)) return free_marked(block, tag, *lane);
  return free_cached(block, tag, group_of(bytes), bytes);
}

/// The same, after the lane has freed much. The stream's user, who is here, lets other streams have that:
/// gives the lane's blocks to their heaps, and leaves an event behind them.
[[gnu::noinline, gnu::cold]] Status Pool::free_marked(Range& block, Tag tag, const Lane& lane) {
  auto& cache = static_cast<ThreadCache&>(*tag.owner());
  const StreamUser user(lane.stream);
  const SizeGroup group = group_of(block.size);
  (void)free_cached(block, tag, group, block.size);
  Lock lock = state_.look();
  idle_.note_cached();
  const Streams::Pace pace = state_.streams.pace_of(user);
  const bool keeps = pace.gives && reclaimer_.keeps_caches(group, 0);
  if (pace.gives && !keeps) {
    reclaimer_.drain_lane(lock, cache, user.stream());
    state_.streams.leave_event_now(user);
  }
  if (Lane* now = cache.lanes.find(user.stream())) {
    const std::lock_guard cache_lock(cache.lock);
    // What gives nothing looks seldom: threads would only wait for each other at the lock.
    now->count_down(keeps ? std::max(pace.longest, policy::kSeldomEventBytes) : pace.longest);
  }
  return kSuccess;
}

[[gnu::always_inline]] inline Status Pool::free_cached(Range& block, Tag tag, SizeGroup group,
                                                       uint64_t bytes) {
  auto& cache = static_cast<ThreadCache&>(*tag.owner());
  block.set(tag.freed());
  cache.counters.subtract(group, bytes - tag.unasked(), bytes);
  cache.lock.unlock();
  return kSuccess;
}

[[gnu::noinline, gnu::cold]] Status Pool::free_contended(Range& block, Tag tag, Address address,
                                                         Stream stream) {
  static_cast<ThreadCache*>(tag.owner())->lock.lock();
  return free_locked(block, tag, address, stream);
}

/// Frees a block that is watched and otherwise like any other: once the free was seen, it takes the short
/// way. False, with nothing done, for any other block.
bool Pool::free_watched(Address address, Stream stream) {
  Range* block = state_.space.map.find(address);
  ThreadCache* cache = block != nullptr ? owner_of(*block) : nullptr;
  if (cache == nullptr) return false;
  cache->lock.lock();
  Lane* lane = Watcher::lane_if_only_watched(*cache, *block, address, stream);
  if (lane == nullptr) {
    cache->lock.unlock();
    return false;
  }
  const WatchedCall seen = watcher_.see_free(*cache, *block);
  const uint64_t bytes = block->size;
  if (lane->push(block, bytes)) {
    (void)free_marked(*block, block->now(), *lane);
  } else {
    (void)free_cached(*block, block->now(), group_of(bytes), bytes);
  }
  watcher_.tell_free(seen);
  return true;
}

// ---- everything else, under the pool's lock

Status Pool::malloc_slow(uint64_t size, uint64_t alignment, Stream stream, Address& address,
                         const Address* behind) {
  const StreamUser user(stream);
  Status status = kSuccess;
  idle_.begin_anew();
  if (debugger_ != nullptr) {
    status = debugger_->malloc(size, alignment, user, address);
  } else {
    WatchedCall seen;
    status = slow_malloc_.malloc(size, alignment, user, address, seen, behind);
    watcher_.tell_malloc(seen);
  }
  look_for_idle_pools(state_.device.raw());
  return is_shortage(status) ? explain_shortage(status, size) : status;
}

/// Blocks of debug modes have more around them than their callers ask for.
Status Pool::malloc_behind(uint64_t size, Address behind, Stream stream, Address& address) {
  if (debugger_ != nullptr)
    return fail(GPUPOOL_ERROR_UNAVAILABLE,
                "in a pool with debug modes, no block lies directly behind another");
  const bool is_first = ThreadSlots::find(state_.id) == nullptr;
  if (is_first) open_cache();
  const Status status = malloc_slow(size, kUnit, stream, address, &behind);
  if (is_first && ThreadSlots::is_ending()) ThreadSlots::forget(state_.id);
  return status;
}

/// Adds to the thread's error where the memory is, and who holds most of it, and tells a recording.
Status Pool::explain_shortage(Status status, uint64_t size) {
  watcher_.record_failure(size);
  std::string where;
  {
    const Lock lock = state_.look();
    where = report_.text();
  }
  internal::explain(where);
  Recorder::turn_if_due(Recorder::now());  // a ring keeps what it has recorded
  return name_holders(sampler_, status);
}

/// Gives the calling thread a cache: one that an ended thread has left, with what is in it, or a new one.
void Pool::open_cache() {
  ThreadCache* cache = nullptr;
  {
    const Lock lock = state_.look();
    cache = state_.caches.open();
  }
  ThreadSlots::remember(state_.id, cache);
}

void Pool::close_cache(ThreadCache* cache) noexcept {
  const std::lock_guard lock(state_.mutex);
  state_.caches.close(cache);
}

Status Pool::free_slow(Address address, Stream stream) {
  if (stream == kLegacyStream) return free(address, 0);
  if (free_watched(address, stream)) return kSuccess;
  look_for_idle_pools(state_.device.raw());
  if (debugger_ != nullptr) return debugger_->free(address, StreamUser(stream));
  const Lock lock = enter();
  return slow_free_.free(address, StreamUser(stream));
}

}  // namespace gpupool::internal
