// SPDX-License-Identifier: Apache-2.0
// Hands blocks out and takes them back.
#include "pool/pool.hpp"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "base/defer.hpp"
#include "pool/audit.hpp"
#include "pool/blocks.hpp"
#include "pool/chunk_source.hpp"
#include "pool/explanation.hpp"
#include "pool/holders.hpp"
#include "pool/registry.hpp"
#include "pool/segment_source.hpp"
#include "pool/snapshot.hpp"

namespace gpupool::internal {

Pool::Pool(std::unique_ptr<Device> device, const Options& options)
    : options_(options),
      device_(std::move(device)),
      streams_(device_, space_, options.capture_aware),
      pending_(streams_) {
  if (options.max_chunk != 0) sizer_.max_chunk = options.max_chunk;
  (void)ledger_.budget().set_limit(options.limit);
}

Pool::Pool(const std::shared_ptr<Pool>& parent)
    : options_(parent->options_),
      company_{parent->company_.neighbours, false},
      device_(parent->device_.shared()),
      sizer_(parent->sizer_),
      ledger_(parent->ledger_.budget().shared()),
      streams_(device_, space_, false),
      pending_(streams_),
      others_(rooms_, parent) {
  options_.capture_aware = false;
  options_.is_child = true;
  options_.debug = {};
}

std::unique_ptr<Source> Pool::make_source() {
  if (options_.vmm) return std::make_unique<ChunkSource>(rooms_, backing_);
  return std::make_unique<SegmentSource>(rooms_);
}

/// Nothing is left to release: try_to_end() did that, or the driver has gone with the memory.
Pool::~Pool() = default;

Status Pool::begin_debugging() {
  const DebuggedRooms debugged{rooms_, door_, backing_, slow_path_, way_back_, sleeper_, watcher_, sampler_};
  debugger_ = std::make_unique<Debugger>(*this, debugged, options_.debug);
  if (options_.debug.slows()) slow_path_.keep_no_lanes();
  return debugger_->begin();
}

Status Pool::check(uint64_t& count, std::string& text) {
  count = 0;
  return debugger_ != nullptr ? debugger_->check(count, text) : kSuccess;
}

/// After fork the driver must not be asked: statistics stay as they were.
bool Pool::is_usable() const noexcept {
  return handle_ != nullptr && handle_->life.load(std::memory_order_acquire) != Life::forked;
}

bool Pool::is_live() const noexcept {
  return handle_ != nullptr && handle_->life.load(std::memory_order_acquire) == Life::live;
}

void Pool::share(std::unique_ptr<Neighbours> group) noexcept {
  company_.neighbours = group.get();
  ledger_.budget().shared()->join(std::move(group));
}

void Pool::set_handle(gpupool_t* handle) noexcept {
  handle_ = handle;
  id_ = handle->id;
}

// ---- the hot path: no driver call, no allocation, no lock but the thread's own. Rare cases are tail calls
// of functions of their own, so that the common way saves no registers.

Status Pool::malloc(uint64_t size, uint64_t alignment, Stream stream, Address& address) {
  ThreadCache* cache = ThreadSlots::find(id_);
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
  if (ThreadSlots::is_ending()) ThreadSlots::forget(id_);
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
  const bool due = cache.counters.raise(group_of(block.size));
  Sighting seen;
  watcher_.see_malloc(cache, block, seen);
  cache.lock.unlock();
  watcher_.tell_malloc(seen);
  if (due) {
    const Lock lock(mutex_, &display_);
    caches_.fold(counters_);
  }
  if (debugger_ != nullptr) debugger_->guard(seen, kUnit, address);
  return kSuccess;
}

Status Pool::free(Address address, Stream stream) {
  if (address == 0) return kSuccess;
  Range* block = space_.map.find(address);
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
  place.lane->bins.push(&block);
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
  lane->bins.push(&block);
  return free_cached(block, tag, group_of(bytes), bytes);
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
  Range* block = space_.map.find(address);
  ThreadCache* cache = block != nullptr ? owner_of(*block) : nullptr;
  if (cache == nullptr) return false;
  cache->lock.lock();
  Lane* lane = Watcher::lane_if_only_watched(*cache, *block, address, stream);
  if (lane == nullptr) {
    cache->lock.unlock();
    return false;
  }
  const Sighting seen = watcher_.see_free(*cache, *block);
  const SizeGroup group = group_of(block->size);
  lane->bins.push(block);
  (void)free_cached(*block, block->now(), group, block->size);
  watcher_.tell_free(seen);
  return true;
}

// ---- everything else, under the pool's lock

Status Pool::malloc_slow(uint64_t size, uint64_t alignment, Stream stream, Address& address) {
  if (debugger_ != nullptr) return debugger_->malloc(size, alignment, stream, address);
  Sighting seen;
  const Status status = slow_path_.malloc(size, alignment, stream, address, seen);
  watcher_.tell_malloc(seen);
  return is_shortage(status) ? name_holders(sampler_, status) : status;
}

/// Gives the calling thread a cache: one that an ended thread has left, with what is in it, or a new one.
void Pool::open_cache() {
  ThreadCache* cache = nullptr;
  {
    const Lock lock = door_.look();
    cache = caches_.open();
  }
  ThreadSlots::remember(id_, cache);
}

void Pool::close_cache(ThreadCache* cache) noexcept {
  const std::lock_guard lock(mutex_);
  caches_.close(cache);
}

Status Pool::free_slow(Address address, Stream stream) {
  if (free_watched(address, stream)) return kSuccess;
  if (debugger_ != nullptr) return debugger_->free(address, stream);
  const Lock lock = enter();
  return slow_path_.free(address, stream);
}

// ---- the other calls

Status Pool::record_stream(Address address, Stream stream) {
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  if (address == 0) return kSuccess;
  const Lock lock = enter();
  return slow_path_.record_stream(address, stream);
}

Status Pool::retire_stream(Stream stream, bool for_good) {
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  Lock lock = enter();
  return way_back_.retire_stream(lock, stream, for_good);
}

Status Pool::set_oom_handler(gpupool_oom_fn_t fn, void* user) {
  const Lock lock = door_.look();
  oom_handler_.set(fn, user);
  return kSuccess;
}

Status Pool::block_info(Address address, gpupool_block_t& block) {
  const Lock lock = door_.look();
  return internal::block_info(rooms_, address, block);
}

Status Pool::enable_peer(int32_t peer) {
  const Status status = internal::enable_peer(*this, peer);
  if (status == kSuccess && options_.vmm) narrator_.say("device %d may access its memory", peer);
  return status;
}

Status Pool::set_limit(uint64_t limit) {
  const Status status = stock_.set_limit(limit);
  display_.show_again();
  return status;
}

Status Pool::request_from_neighbours(uint64_t bytes, uint64_t wait_ns) {
  Lock lock = enter();
  return internal::request_from_neighbours(lock, rooms_, bytes, wait_ns);
}

Status Pool::synchronize() {
  Lock lock = enter();
  const Status status = way_back_.wait_for_streams(lock, "synchronize");
  way_back_.settle_all_pending(lock);
  source_->settle();
  return status;
}

Status Pool::capture_id(Stream stream, uint64_t& capture) {
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  uint64_t found = 0;
  if (const Status status = device_.capture_id(stream, found); status != kSuccess) return status;
  capture = found == kCaptureElsewhere ? 0 : found;
  return kSuccess;
}

Status Pool::release_capture(uint64_t capture) {
  if (capture == 0) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "0 is the number of no capture");
  const Lock lock = enter();
  if (const Status status = captures_.release(capture); status != kSuccess) return status;
  source_->lower();
  narrator_.say("capture %" PRIu64 " is released", capture);
  return kSuccess;
}

int Pool::explain(Address address, std::string& text) {
  Explanation explanation(address);
  {
    const Lock lock = enter();
    explanation.find(space_, debugger_.get());
  }
  return explanation.tell(id_, device_.info(), sampler_, text);
}

void Pool::stats(gpupool_stats_t& stats) {
  const Lock lock = enter();
  if (is_usable()) way_back_.settle_pending();
  statistics_.read(stats);
}

void Pool::snapshot(std::vector<gpupool_segment_t>& segments, std::vector<gpupool_block_t>& blocks) {
  Snapshot snapshot(space_, device_.info().ordinal);
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
  return report_.text() + (most.empty() ? "" : " Most is held by: " + most + ".");
}

Status Pool::validate() {
  const Lock lock = enter();
  return Audit(rooms_, backing_, pending_, exports_).run();
}

// ---- the end

/// Lets a destroyed pool end. False while blocks are live, for all threads but one, and while a capturing
/// stream or a failing driver keeps memory from going; after that it may be tried again. Until then the
/// pool touches no stream that it could let go of, since its owner may destroy them.
bool Pool::try_to_end() {
  Lock lock = enter();
  sleeper_.end_allowance(lock);
  way_back_.drain_all(lock);
  if (is_ending_ || caches_.live().blocks != 0) return false;
  is_ending_ = true;
  // No graph of this pool runs any more.
  captures_.end();
  sleeper_.end(lock);
  if (debugger_ != nullptr) debugger_->end(lock);
  exports_.end();
  imports_.end(lock);
  source_->end(lock);
  // Nobody comes back to a pool that is gone, so what the driver refuses is tried once more here. Once the
  // driver itself has gone, its memory goes with the process.
  for (int tries = 0; tries < 2 && ledger_.used() != 0; ++tries) {
    (void)way_back_.wait_for_streams(lock, "the pool's end");
    way_back_.settle_all_pending(lock);
    source_->end(lock);
  }
  is_ending_ = (ledger_.used() == 0 && imports_.empty()) || !is_usable();
  if (!is_ending_) streams_.retire_all();
  return is_ending_;
}

void Pool::lock_all() noexcept {
  mutex_.lock();
  caches_.lock_all();
  sampler_.lock();
}

void Pool::unlock_all() noexcept {
  sampler_.unlock();
  caches_.unlock_all();
  mutex_.unlock();
}

}  // namespace gpupool::internal
