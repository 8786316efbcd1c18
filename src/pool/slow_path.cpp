// SPDX-License-Identifier: Apache-2.0
#include "pool/slow_path.hpp"

#include <cinttypes>
#include <mutex>

#include "base/defer.hpp"
#include "pool/blocks.hpp"
#include "pool/door.hpp"
#include "pool/exports.hpp"
#include "pool/pending.hpp"
#include "pool/protections.hpp"
#include "pool/provider.hpp"
#include "pool/rooms.hpp"
#include "pool/thread_slots.hpp"
#include "pool/watcher.hpp"
#include "pool/way_back.hpp"
#include "watch/sampler.hpp"

namespace gpupool::internal {

Status SlowPath::malloc(uint64_t size, uint64_t alignment, Stream stream, Address& address, Sighting& seen) {
  if (size == 0) {
    address = 0;
    return kSuccess;
  }
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  if (!is_valid_size(size)) {
    const QuietLock lock = door_.look();
    return provider_.explain(fail(GPUPOOL_ERROR_OUT_OF_MEMORY, "the request is larger than any device"),
                             size);
  }
  // Taken now: what serves this malloc may call another pool, whose cache then takes this one's slot.
  ThreadCache& cache = *ThreadSlots::find(rooms_.id);
  QuietLock lock = door_.enter();
  Sleeper::Guest guest(sleeper_);
  if (const Status status = guest.admit(lock); status != kSuccess) return status;
  StreamState* state = nullptr;
  if (const Status status = rooms_.streams.find(stream, state); status != kSuccess) return status;
  ++state->inside;
  const Defer leave([&] { --state->inside; });
  Range* block = nullptr;
  const uint64_t bytes = allocated_size(size);
  if (const Status status = provider_.provide(lock, guest, *state, bytes, alignment, block);
      status != kSuccess)
    return status;
  address = block->address;
  assign_block(block, cache, size, seen);
  return kSuccess;
}

void SlowPath::assign_block(Range* block, ThreadCache& cache, uint64_t requested, Sighting& seen) noexcept {
  const Stream stream = heap_of(*block).lane_stream();
  const uint64_t bytes = block->size;
  const SizeGroup group = group_of(bytes);
  sampler_.relax();
  Lane* lane = cache.lanes.find(stream);
  if (lane == nullptr && keeps_lanes_) {
    way_back_.free_all_to_heap(rooms_.caches.open_lane(cache, stream));
    lane = cache.lanes.find(stream);
  }
  Range* surplus = nullptr;
  bool due = false;
  {
    const std::lock_guard lock(cache.lock);
    block->tag.store(Tag::of_block(State::live, &cache, bytes - requested), std::memory_order_release);
    due = cache.counters.add(group, requested, bytes);
    ++cache.counters.misses;
    watcher_.see_malloc(cache, *block, seen);
    if (lane != nullptr) {
      lane->bins.touch(group);
      surplus = lane->bins.pop_surplus(group);
    }
  }
  way_back_.free_all_to_heap(surplus);
  if (due) rooms_.caches.fold(rooms_.counters);
}

/// The first part of a free: takes a live block from its owner. It is then cached, counted as freed, and in
/// no bin. Null, with a status, if the address is no live block's.
Range* SlowPath::begin_free(Address address, Status& status) {
  Range* block = rooms_.space.map.find(address);
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
  status = not_a_block(rooms_.space, address);
  return nullptr;
}

/// Whether a stream other than the block's own may be using a block that is freed on `stream`, and which;
/// null: any. A free never fails because the driver does not say whether `stream` captures.
Status SlowPath::find_user(const Range& block, Stream stream, bool& is_other, StreamState*& user) {
  is_other = true;
  user = nullptr;
  if (stream == GPUPOOL_STREAM_UNKNOWN) return kSuccess;
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  StreamState& home = heap_of(block).state();
  // A block of a released stream may be freed with that stream's old number.
  const bool is_old =
      home.order.stream() == stream && home.order.is_retired() && !rooms_.streams.knows(stream);
  if (!is_old) user = &rooms_.streams.find_user(stream);
  // A capture's block may be freed on its stream after the capture: the same queue, in the same order.
  const bool is_same = !is_old && !home.order.is_retired() && user->capture == 0 &&
                       user->order.stream() == home.order.stream();
  is_other = !is_old && !is_same && user != &home;
  return kSuccess;
}

Status SlowPath::free(Address address, Stream stream) {
  // An address that is no block must not make its stream known.
  Range* block = find_live(rooms_.space, address);
  if (block == nullptr) return not_a_block(rooms_.space, address);
  bool is_other = false;
  StreamState* user = nullptr;
  if (const Status status = find_user(*block, stream, is_other, user); status != kSuccess) return status;
  pending_.prepare();
  if (const Status status = protections_.undo(*block); status != kSuccess) return status;
  Status status = kSuccess;
  block = begin_free(address, status);
  if (block == nullptr) return status;
  if (is_other) pending_.add_use(*block, user);
  sleeper_.forget(address);
  exports_.close(address);
  block->end_notes();
  if (!pending_.add(*block)) {
    way_back_.settle(*block);
    return kSuccess;
  }
  // The block stays counted in the cache that allocated it.
  ThreadCache& owner = *owner_of(*block);
  const std::lock_guard owner_lock(owner.lock);
  owner.counters.add_pending(group_of(block->size), block->requested(), block->size);
  block->become(State::pending);
  return kSuccess;
}

Status SlowPath::record_stream(Address address, Stream stream) {
  Range* block = rooms_.space.map.find(address);
  ThreadCache* owner = block != nullptr ? owner_of(*block) : nullptr;
  if (owner == nullptr || block->address != address || !block->is(State::live))
    return not_a_block(rooms_.space, address);
  pending_.prepare();
  StreamState* state = &rooms_.streams.find_user(stream);
  if (state == &heap_of(*block).state()) return kSuccess;
  const std::lock_guard cache_lock(owner->lock);
  if (!block->is(State::live)) {
    return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "0x%" PRIx64 " was freed meanwhile", address);
  }
  block->begin_notes();
  pending_.add_use(*block, state);
  watcher_.record_use(*block, stream);
  return kSuccess;
}

}  // namespace gpupool::internal
