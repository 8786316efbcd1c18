// SPDX-License-Identifier: Apache-2.0
// Hands blocks out and takes them back.
#include "pool/pool.hpp"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "base/defer.hpp"
#include "pool/handle.hpp"
#include "pool/memory/blocks.hpp"
#include "pool/memory/chunk_source.hpp"
#include "pool/memory/segment_source.hpp"
#include "pool/observe/audit.hpp"
#include "pool/observe/explanation.hpp"
#include "pool/observe/holders.hpp"
#include "pool/observe/snapshot.hpp"

namespace gpupool::internal {

namespace {

std::unique_ptr<Source> make_source(PoolState& pool) {
  if (pool.options.vmm) return std::make_unique<ChunkSource>(pool);
  return std::make_unique<SegmentSource>(pool);
}

}  // namespace

Pool::Pool(std::unique_ptr<Device> device, const Options& options, std::unique_ptr<Helpers> helpers)
    : Pool(helpers, std::shared_ptr<Device>(std::move(device)), options) {}

Pool::Pool(Pool& parent, std::unique_ptr<Helpers> helpers)
    : Pool(helpers, PoolState::Child{}, parent.state_) {}

template <typename... Arguments>
Pool::Pool(std::unique_ptr<Helpers>& helpers, Arguments&&... arguments)
    : state_(std::forward<Arguments>(arguments)...),
      helpers_(std::move(helpers)),
      source_(make_source(state_)),
      debugger_(state_.options.debug.any() ? std::make_unique<Debugger>(state_, slow_malloc_, slow_free_,
                                                                        reclaimer_, watcher_, sampler_)
                                           : nullptr),
      sleeper_(state_, {*source_, reclaimer_, capacity_, exports_, protections_, *helpers_, oom_handler_,
                        debugger_.get()}) {
  reclaimer_.set_keepers(debugger_.get(), &sleeper_.keeper());
  if (state_.options.debug.slows()) slow_malloc_.keep_no_lanes();
  state_.onlooker = &display_;
}

/// Nothing is left to release: try_to_end() did that, or the driver has gone with the memory.
Pool::~Pool() = default;

Status Pool::check(uint64_t& count, std::string& text) {
  count = 0;
  return debugger_ != nullptr ? debugger_->check(count, text) : kSuccess;
}

/// After fork the driver must not be asked: statistics stay as they were.
bool Pool::is_usable() const noexcept {
  return state_.where != nullptr && state_.life() != Life::forked;
}

bool Pool::is_live() const noexcept {
  return state_.life() == Life::live;
}

void Pool::share(std::unique_ptr<GroupLimit> group) noexcept {
  state_.group.limit = group.get();
  state_.ledger.budget().shared()->join(std::move(group));
}

void Pool::set_handle(gpupool_t* handle) noexcept {
  state_.handle = handle;
  state_.id = handle->id;
  state_.where = &handle->life;
}

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

/// Called with the cache's lock, which it gives up. Looks only in the stream's home place.
[[gnu::always_inline]] inline Status Pool::malloc_locked(ThreadCache& cache, uint64_t size, Stream stream,
                                                         Address& address) {
  const Lanes::Place& place = cache.lanes.home(stream);
  Range* block = place.stream == stream ? place.lane->bins.pop(size) : nullptr;
  if (block == nullptr) [[unlikely]]
    return malloc_further(cache, size, stream, address);
  return malloc_cached(cache, *block, size, address);
}

/// The same for a stream in another place, and the end for one that was in its own.
[[gnu::noinline]] Status Pool::malloc_further(ThreadCache& cache, uint64_t size, Stream stream,
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
  const Lanes::Place& place = cache.lanes.home(stream);
  if (place.stream != stream) [[unlikely]]
    return free_further(block, tag, stream);
  if (place.lane->push(&block, bytes)) [[unlikely]]
    return free_marked(block, tag, *place.lane);
  return free_cached(block, tag, group, bytes);
}

/// The same, for a stream that is not in its home place.
[[gnu::noinline]] Status Pool::free_further(Range& block, Tag tag, Stream stream) {
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
  (void)free_cached(block, tag, group_of(block.size), block.size);
  Lock lock = state_.look();
  idle_.note_cached();
  const Streams::Pace pace = state_.streams.pace_of(user);
  if (pace.gives) {
    reclaimer_.drain_lane(lock, cache, user.stream());
    state_.streams.leave_event_now(user);
  }
  if (Lane* now = cache.lanes.find(user.stream())) {
    const std::lock_guard cache_lock(cache.lock);
    now->count_down(pace.longest);
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

Status Pool::malloc_slow(uint64_t size, uint64_t alignment, Stream stream, Address& address) {
  const StreamUser user(stream);
  Status status = kSuccess;
  idle_.begin_anew();
  if (debugger_ != nullptr) {
    status = debugger_->malloc(size, alignment, user, address);
  } else {
    WatchedCall seen;
    status = slow_malloc_.malloc(size, alignment, user, address, seen);
    watcher_.tell_malloc(seen);
  }
  look_for_idle_pools(state_.device.raw());
  return is_shortage(status) ? explain_shortage(status, size) : status;
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

// ---- the other calls

Status Pool::record_stream(Address address, Stream stream) {
  StreamUser user(stream);
  if (const Status status = check_stream(user); status != kSuccess) return status;
  if (address == 0) return kSuccess;
  const Lock lock = enter();
  return slow_free_.record_stream(address, user);
}

Status Pool::export_block(Address address, std::string& handle) {
  Lock lock = enter();
  if (const Status status = state_.gate.admit(lock); status != kSuccess) return status;
  if (const Status status = sleeper_.check_awake(address); status != kSuccess) return status;
  return exports_.add(address, handle);
}

Status Pool::retire_stream(StreamUser user, bool for_good) {
  if (const Status status = check_stream(user); status != kSuccess) return status;
  Lock lock = enter();
  return reclaimer_.retire_stream(lock, user, for_good);
}

Status Pool::set_oom_handler(gpupool_oom_fn_t fn, void* user) {
  const Lock lock = state_.look();
  oom_handler_.set(fn, user);
  return kSuccess;
}

Status Pool::block_info(Address address, gpupool_block_t& block) {
  const Lock lock = state_.look();
  return internal::block_info(state_, address, block);
}

Status Pool::set_limit(uint64_t asked, const Ceiling& ceiling) {
  const Status status = capacity_.set_limit(asked, ceiling);
  state_.show_again();
  return status;
}

Status Pool::request_from_group(uint64_t bytes, uint64_t wait_ns) {
  Lock lock = enter();
  return internal::request_from_group(lock, state_, bytes, wait_ns);
}

Status Pool::synchronize() {
  look_for_idle_pools(state_.device.raw());
  Lock lock = enter();
  const Status status = reclaimer_.wait_for_streams(lock, "synchronize", Reclaimer::Extent::everything);
  reclaimer_.settle_all_pending(lock);
  source_->settle();
  return status;
}

bool Pool::release_if_idle(uint64_t most) {
  {
    const Lock lock = state_.look();
    if (!idle_.is_due()) return false;
  }
  if (capacity_.release_unasked(most, "idle") != 0) return true;
  idle_.begin_anew();
  return false;
}

/// Its user waits for a stream, so what was freed there by now has passed.
Status Pool::synchronize_stream(Stream stream) {
  StreamUser user(stream);
  if (const Status status = check_stream(user); status != kSuccess) return status;
  StreamOrder* order = nullptr;
  uint64_t epoch = 0;
  {
    const Lock lock = state_.look();
    order = state_.streams.order_of(user);
    if (order != nullptr) epoch = order->close_epoch();
  }
  if (const Status status = state_.device.raw().synchronize_stream(user.stream()); status != kSuccess)
    return status;
  if (order == nullptr) return kSuccess;
  const Lock lock = state_.look();
  if (order->stream() == user.stream() && !order->is_retired()) order->pass(epoch);
  return kSuccess;
}

Status Pool::capture_id(Stream stream, uint64_t& capture) {
  StreamUser user(stream);
  if (const Status status = check_stream(user); status != kSuccess) return status;
  uint64_t found = 0;
  if (const Status status = state_.device.capture_id(user, found); status != kSuccess) return status;
  capture = found == kCaptureElsewhere ? 0 : found;
  return kSuccess;
}

Status Pool::release_capture(uint64_t capture) {
  if (capture == 0) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "0 is the number of no capture");
  const Lock lock = enter();
  if (const Status status = state_.captures.release(capture); status != kSuccess) return status;
  source_->lower();
  state_.log.say("capture %" PRIu64 " is released", capture);
  return kSuccess;
}

int Pool::explain(Address address, std::string& text) {
  Explanation explanation(address);
  {
    const Lock lock = enter();
    explanation.find(state_.space, debugger_.get());
  }
  return explanation.tell(state_.id, state_.device.info(), sampler_, text);
}

void Pool::stats(gpupool_stats_t& stats) {
  if (is_live()) look_for_idle_pools(state_.device.raw());
  const Lock lock = enter();
  if (is_usable()) reclaimer_.settle_pending();
  statistics_.read(stats);
}

void Pool::snapshot(std::vector<gpupool_segment_t>& segments, std::vector<gpupool_block_t>& blocks) {
  Snapshot snapshot(state_.space, state_.streams, state_.device.info().ordinal);
  {
    Lock lock = enter();
    while (snapshot.step()) lock.give_way();
  }
  segments = snapshot.segments();
  blocks = snapshot.blocks();
}

std::string Pool::report() {
  constexpr size_t kNamed = 10;
  const std::string most = largest_holders(sampler_, kNamed);
  const Lock lock = enter();
  return report_.text() + (most.empty() ? "" : "\n" + most);
}

Status Pool::validate() {
  const Lock lock = enter();
  return Audit(state_, exports_, sleeper_).run();
}

// ---- the end

/// Lets a destroyed pool end. False while blocks are live, while a call on it is inside a function of the
/// user's, for all threads but one, and while a capturing stream or a failing driver keeps memory from going;
/// after that it may be tried again. Until then the pool touches no stream that it could let go of, since its
/// owner may destroy them.
bool Pool::try_to_end() {
  const interrupts::Off off;
  Lock lock = enter();
  if (state_.mutex.callbacks() != 0) return false;
  sleeper_.end_allowance(lock);
  reclaimer_.drain_all(lock);
  if (is_ending_ || state_.caches.live().blocks != 0) return false;
  is_ending_ = true;
  // No graph of this pool runs any more.
  state_.captures.end();
  sleeper_.end(lock);
  if (debugger_ != nullptr) debugger_->end(lock);
  exports_.end();
  (void)reclaimer_.settle_exports(true);
  imports_.end(lock);
  source_->end(lock);
  // Nobody comes back to a pool that is gone, so what the driver refuses is tried twice more here. Once the
  // driver itself has gone, its memory goes with the process.
  for (int tries = 0; tries < 3 && state_.ledger.used() != 0; ++tries) {
    (void)reclaimer_.wait_for_streams(lock, "the pool's end", Reclaimer::Extent::freed);
    reclaimer_.settle_all_pending(lock);
    source_->end(lock);
  }
  is_ending_ = (state_.ledger.used() == 0 && imports_.empty()) || !is_usable();
  if (!is_ending_) state_.streams.retire_all();
  return is_ending_;
}

void Pool::lock_all() noexcept {
  state_.mutex.lock();
  state_.caches.lock_all();
  sampler_.lock();
}

void Pool::unlock_all() noexcept {
  sampler_.unlock();
  state_.caches.unlock_all();
  state_.mutex.unlock();
}

}  // namespace gpupool::internal
