// SPDX-License-Identifier: Apache-2.0
// Hands blocks out and takes them back.
#include "pool/pool.hpp"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "base/defer.hpp"
#include "pool/audit.hpp"
#include "pool/chunk_source.hpp"
#include "pool/explanation.hpp"
#include "pool/holders.hpp"
#include "pool/registry.hpp"
#include "pool/segment_source.hpp"
#include "pool/snapshot.hpp"
#include "pool/story.hpp"

namespace gpupool::internal {

Pool::Pool(std::unique_ptr<Device> device, const Options& options)
    : options_(options),
      device_(std::move(device)),
      streams_(device_, space_, options.capture_aware),
      pending_(streams_) {
  if (options.max_chunk != 0) sizer_.max_chunk = options.max_chunk;
  (void)ledger_.budget().set_limit(options.limit);
  open_source();
}

Pool::Pool(const std::shared_ptr<Pool>& parent)
    : options_(parent->options_),
      parent_(parent),
      company_{parent->company_.neighbours, false},
      device_(parent->device_.shared()),
      sizer_(parent->sizer_),
      ledger_(parent->ledger_.budget().shared()),
      streams_(device_, space_, false),
      pending_(streams_) {
  options_.capture_aware = false;
  options_.is_child = true;
  options_.debug = {};
  open_source();
}

void Pool::open_source() {
  if (options_.vmm) {
    source_ = std::make_unique<ChunkSource>(rooms_, backing_);
  } else {
    source_ = std::make_unique<SegmentSource>(rooms_);
  }
}

/// Nothing is left to release: try_to_end() did that, or the driver has gone with the memory.
Pool::~Pool() = default;

Status Pool::begin_debugging() {
  debugger_ = std::make_unique<Debugger>(*this, options_.debug);
  keeps_lanes_ = !options_.debug.slows();
  return debugger_->begin();
}

Status Pool::check(uint64_t& count, std::string& text) {
  count = 0;
  return debugger_ != nullptr ? debugger_->check(count, text) : kSuccess;
}

bool Pool::find_story(Address address, std::string& story) {
  BlockRecord life;
  {
    const Lock lock(mutex_);
    const BlockRecord* found = debugger_ != nullptr ? debugger_->book().holder(address) : nullptr;
    if (found == nullptr) return false;
    life = *found;
  }
  story = describe_life(life);
  return true;
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
  if (handle_is_usable()) settle_pending();
  statistics_.read(stats);
}

void Pool::reset_peaks() {
  const Lock lock = enter();
  statistics_.reset_peaks();
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

void Pool::watch_anew() {
  const Lock lock = enter();
  watcher_.watch_anew();
}

/// After fork the driver must not be asked: statistics stay as they were.
bool Pool::handle_is_usable() const noexcept {
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
  const uint64_t bytes = allocated_size(size);
  const SizeGroup group = group_of(bytes);
  const Lanes::Place& place = cache.lanes.home(stream);
  Range* block = place.stream == stream ? place.bins(group).pop(bytes) : nullptr;
  if (block == nullptr) [[unlikely]]
    return malloc_further(cache, size, stream, address);
  return malloc_cached(cache, group, *block, size, address);
}

/// The same, for a stream that may be in another place.
[[gnu::noinline]] Status Pool::malloc_further(ThreadCache& cache, uint64_t size, Stream stream,
                                              Address& address) {
  const uint64_t bytes = allocated_size(size);
  const SizeGroup group = group_of(bytes);
  Lane* lane = cache.lanes.find(stream);
  Range* block = lane != nullptr ? lane->bins(group).pop(bytes) : nullptr;
  if (block != nullptr) return malloc_cached(cache, group, *block, size, address);
  cache.lock.unlock();
  return malloc_slow(size, kUnit, stream, address);
}

[[gnu::always_inline]] inline Status Pool::malloc_cached(ThreadCache& cache, SizeGroup group, Range& block,
                                                         uint64_t size, Address& address) {
  const uint64_t bytes = allocated_size(size);
  block.set(Tag::of_block(State::live, &cache, bytes - size));
  address = block.address;
  if (cache.counters.count(group, size, bytes)) [[unlikely]]
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
  const bool due = cache.counters.raise();
  const Sighting seen = watcher_.see_malloc(cache, block);
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
  place.bins(group).push(&block);
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
  lane->bins(group_of(bytes)).push(&block);
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
[[gnu::noinline]] bool Pool::free_watched(Address address, Stream stream) {
  Range* block = space_.map.find(address);
  ThreadCache* cache = block != nullptr ? owner_of(*block) : nullptr;
  if (cache == nullptr) return false;
  cache->lock.lock();
  if (!Watcher::is_only_watched(*cache, *block, address, stream)) {
    cache->lock.unlock();
    return false;
  }
  const Sighting seen = watcher_.see_free(*cache, *block);
  (void)free_further(*block, block->now(), stream);
  watcher_.tell_free(seen);
  return true;
}

// ---- everything else, under the pool's lock

Pool::Lock Pool::enter() {
  Lock lock(mutex_, &display_);
  streams_.next_round();
  return lock;
}

Status Pool::malloc_slow(uint64_t size, uint64_t alignment, Stream stream, Address& address) {
  if (debugger_ != nullptr) return debugger_->malloc(size, alignment, stream, address);
  Sighting seen;
  const Status status = malloc_under_lock(size, alignment, stream, address, seen);
  watcher_.tell_malloc(seen);
  return is_shortage(status) ? name_holders(sampler_, status) : status;
}

Status Pool::malloc_under_lock(uint64_t size, uint64_t alignment, Stream stream, Address& address,
                               Sighting& seen) {
  if (size == 0) {
    address = 0;
    return kSuccess;
  }
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  if (!is_valid_size(size)) {
    const Lock lock(mutex_);
    return fail_malloc(fail(GPUPOOL_ERROR_OUT_OF_MEMORY, "the request is larger than any device"), size);
  }
  // Taken now: what serves this malloc may call another pool, whose cache then takes this one's slot.
  ThreadCache& cache = *ThreadSlots::find(id_);
  Lock lock = enter();
  if (const Status status = sleeper_.admit(lock); status != kSuccess) return status;
  StreamState* state = nullptr;
  if (const Status status = streams_.find(stream, state); status != kSuccess) return status;
  ++state->inside;
  const Defer leave([&] { --state->inside; });
  Range* block = nullptr;
  const uint64_t bytes = allocated_size(size);
  if (const Status status = allocate_or_explain(lock, *state, bytes, alignment, block); status != kSuccess)
    return status;
  address = block->address;
  assign_block(block, cache, size, seen);
  return kSuccess;
}

/// Gives the calling thread a cache: one that an ended thread has left, with what is in it, or a new one.
void Pool::open_cache() {
  ThreadCache* cache = nullptr;
  {
    const Lock lock(mutex_);
    cache = caches_.open();
  }
  ThreadSlots::remember(id_, cache);
}

void Pool::close_cache(ThreadCache* cache) noexcept {
  const std::lock_guard lock(mutex_);
  caches_.close(cache);
}

Status Pool::check_stream(Stream& stream) {
  constexpr Stream kLegacy = 1;
  constexpr Stream kPerThread = 2;
  if (stream == GPUPOOL_STREAM_UNKNOWN) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "GPUPOOL_STREAM_UNKNOWN is not a stream");
  }
  if (stream == kPerThread) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "stream 2 is the per-thread default stream, another queue on each thread: create a stream");
  }
  if (stream == kLegacy) stream = 0;
  return kSuccess;
}

/// Makes a block that was just taken from a heap the cache's own, and opens a lane for its stream.
void Pool::assign_block(Range* block, ThreadCache& cache, uint64_t requested, Sighting& seen) noexcept {
  const Stream stream = heap_of(*block).lane_stream();
  const uint64_t bytes = block->size;
  const SizeGroup group = group_of(bytes);
  sampler_.relax();
  if (keeps_lanes_) free_all_to_heap(caches_.open_lane(cache, stream));
  Range* surplus = nullptr;
  bool due = false;
  {
    const std::lock_guard lock(cache.lock);
    block->tag.store(Tag::of_block(State::live, &cache, bytes - requested), std::memory_order_release);
    due = cache.counters.add(group, requested, bytes);
    ++cache.counters.misses;
    seen = watcher_.see_malloc(cache, *block);
    if (Lane* lane = cache.lanes.find(stream)) {
      lane->bins(group).touch();
      surplus = lane->bins(group).pop_surplus();
    }
  }
  free_all_to_heap(surplus);
  if (due) caches_.fold(counters_);
}

/// Turns a block into a hole of its heap.
void Pool::free_to_heap(Range& block) noexcept {
  if (sleeper_.is_alone(block.address)) return sleeper_.free_block(block);
  StreamHeap& heap = heap_of(block);
  heap.free(&block, heap.state().order.stamp());
}

/// Settles a freed block that, in this process, only its own stream still uses.
void Pool::settle(Range& block) noexcept {
  if (exports_.keep(block)) return;
  debugger_ != nullptr ? debugger_->settle(block) : free_to_heap(block);
}

/// Calls free_to_heap() for each block of a list through Range::link.
void Pool::free_all_to_heap(Range* first) noexcept {
  while (first != nullptr) {
    Range* next = first->link;
    free_to_heap(*first);
    first = next;
  }
}

/// The first part of a free: takes a live block from its owner. It is then cached, counted as freed, and in
/// no bin. Null, with a status, if the address is no live block's.
Range* Pool::begin_free(Address address, Status& status) {
  Range* block = space_.map.find(address);
  ThreadCache* cache = block != nullptr ? owner_of(*block) : nullptr;
  if (cache != nullptr && block->address == address) {
    Sighting seen;
    const Defer tell([&] { watcher_.tell_free(seen); });
    const std::lock_guard lock(cache->lock);
    if (block->is(State::live)) {
      seen = watcher_.see_free(*cache, *block);
      block->begin_notes();
      block->become(State::cached);
      cache->counters.subtract(group_of(block->size), block->requested(), block->size);
      return block;
    }
  }
  status = not_a_block(address);
  return nullptr;
}

Status Pool::not_a_block(Address address) {
  const Range* near = space_.map.find_at_or_before(address);
  if (near != nullptr && address < near->end()) {
    if (near->address == address) {
      return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "0x%" PRIx64 " has been freed already", address);
    }
    return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "0x%" PRIx64 " points into the block at 0x%" PRIx64, address,
                near->address);
  }
  return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "0x%" PRIx64 " is not a live block of this pool", address);
}

/// Whether a stream other than the block's own may be using a block that is freed on `stream`, and which;
/// null: any. A free never fails because the driver does not say whether `stream` captures.
Status Pool::find_user(const Range& block, Stream stream, bool& is_other, StreamState*& user) {
  is_other = true;
  user = nullptr;
  if (stream == GPUPOOL_STREAM_UNKNOWN) return kSuccess;
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  StreamState& home = heap_of(block).state();
  // A block of a released stream may be freed with that stream's old number.
  const bool is_old = home.order.stream() == stream && home.order.is_retired() && !streams_.knows(stream);
  if (!is_old) user = &streams_.find_user(stream);
  // A capture's block may be freed on its stream after the capture: the same queue, in the same order.
  const bool is_same = !is_old && !home.order.is_retired() && user->capture == 0 &&
                       user->order.stream() == home.order.stream();
  is_other = !is_old && !is_same && user != &home;
  return kSuccess;
}

Status Pool::free_slow(Address address, Stream stream) {
  if (free_watched(address, stream)) return kSuccess;
  if (debugger_ != nullptr) return debugger_->free(address, stream);
  const Lock lock = enter();
  return free_under_lock(address, stream);
}

Status Pool::free_under_lock(Address address, Stream stream) {
  // An address that is no block must not make its stream known.
  Range* block = space_.map.find(address);
  if (block == nullptr || block->address != address || !block->is(State::live)) return not_a_block(address);
  bool is_other = false;
  StreamState* user = nullptr;
  if (const Status status = find_user(*block, stream, is_other, user); status != kSuccess) return status;
  pending_.prepare();
  if (const Status status = unprotect(*block); status != kSuccess) return status;
  Status status = kSuccess;
  block = begin_free(address, status);
  if (block == nullptr) return status;
  if (is_other) pending_.add_use(*block, user);
  sleeper_.forget(address);
  exports_.close(address);
  block->end_notes();
  if (!pending_.add(*block)) {
    settle(*block);
    return kSuccess;
  }
  // The block stays counted in the cache that allocated it.
  ThreadCache& owner = *owner_of(*block);
  const std::lock_guard owner_lock(owner.lock);
  owner.counters.add_pending(group_of(block->size), block->requested(), block->size);
  block->become(State::pending);
  return kSuccess;
}

}  // namespace gpupool::internal
