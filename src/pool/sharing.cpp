// SPDX-License-Identifier: Apache-2.0
// Blocks that several streams use, and streams that come and go.
#include <algorithm>
#include <cinttypes>

#include "pool/pool.hpp"

namespace gpupool {

Status Pool::record_stream(Address address, Stream stream) {
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  if (address == 0) return kSuccess;
  Lock lock(mutex_);
  Block* block = space_.map.find(address);
  BlockOwner* owner = block != nullptr ? block->owner.load(std::memory_order_acquire) : nullptr;
  if (owner == nullptr || block->address != address || !block->is(State::live)) return not_a_block(address);
  StreamState* state = nullptr;
  if (const Status status = stream_state(stream, state); status != kSuccess) return status;
  if (state == &static_cast<StreamHeap*>(block->heap)->state()) return kSuccess;
  const std::lock_guard cache_lock(static_cast<ThreadCache*>(owner)->lock);
  if (!block->is(State::live)) {
    return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "0x%" PRIx64 " was freed meanwhile", address);
  }
  std::vector<StreamState*>& users = users_[block];
  if (std::find(users.begin(), users.end(), state) == users.end()) users.push_back(state);
  block->shared.store(true, std::memory_order_relaxed);
  return kSuccess;
}

Status Pool::release_stream(Stream stream) {
  return leave_stream(stream, true);
}

Status Pool::park_stream(Stream stream) {
  return leave_stream(stream, false);
}

/// Touches a stream no more: for good, or until it is named again.
Status Pool::leave_stream(Stream stream, bool for_good) {
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  Lock lock(mutex_);
  // In a capture-aware pool, the stream's captures have states of their own.
  for (auto known = by_stream_.lower_bound({stream, 0});
       known != by_stream_.end() && known->first.first == stream;) {
    if (const Status status = leave(*known->second); status != kSuccess) return status;
    known = for_good ? by_stream_.erase(known) : std::next(known);
  }
  return kSuccess;
}

/// Records what must be known of a stream that may end now.
Status Pool::leave(StreamState& state) {
  const Stream stream = state.order.stream();
  // First, so that no free can slip in after what is recorded: from here on, frees of this stream's blocks
  // take the long way, and no thread has a lane for it.
  state.set_name(kNameless);
  for (const auto& cache : caches_) {
    Block* left = nullptr;
    {
      const std::lock_guard cache_lock(cache->lock);
      Lane& lane = cache->lane_of(stream);
      if (lane.stream != stream) continue;
      left = lane.drain();
      lane.stream = kNoStream;
    }
    give_list(left);
  }
  const Status status = state.order.release();
  if (status != kSuccess) state.set_name(name_of(state));
  return status;
}

Status Pool::set_oom_handler(gpupool_oom_fn_t fn, void* user) {
  const Lock lock(mutex_);
  oom_fn_ = fn;
  oom_user_ = user;
  return kSuccess;
}

Status Pool::synchronize() {
  Lock lock(mutex_);
  const Status status = wait_for_streams(lock);
  settle_pending();
  if (options_.vmm) unmap_retired();
  return status;
}

Status Pool::block_info(Address address, gpupool_block_t& info) {
  Lock lock(mutex_);
  const Block* block = space_.map.find_at_or_before(address);
  if (block == nullptr || address >= block->end()) return not_a_block(address);
  BlockOwner* owner = block->owner.load(std::memory_order_acquire);
  if (owner == nullptr) return not_a_block(block->address);
  const std::lock_guard cache_lock(static_cast<ThreadCache*>(owner)->lock);
  if (!block->is(State::live)) {
    return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "the block at 0x%" PRIx64 " has been freed", block->address);
  }
  info.address = block->address;
  info.requested_bytes = block->requested();
  info.allocated_bytes = block->size;
  info.stream = static_cast<const StreamHeap*>(block->heap)->state().order.stream();
  info.state = GPUPOOL_BLOCK_LIVE;
  info.device = driver_.info().ordinal;
  return kSuccess;
}

/// Lets a destroyed pool end: false while blocks are live, and for all threads but one.
bool Pool::finish() {
  Lock lock(mutex_);
  drain_all();
  if (is_finishing_ || live_amounts().blocks != 0) return false;
  is_finishing_ = true;
  // No graph of this pool runs any more.
  for (const auto& state : streams_) state->capture = 0;
  captures_.clear();
  // Nobody comes back to a pool that is gone, so what the driver refuses is tried once more. Once the driver
  // itself has gone, what it holds goes with the process.
  int in_vain = 0;
  do {
    const uint64_t before = budget_.used();
    bool blocked = false;
    (void)wait_for_streams(lock);
    settle_pending();
    (void)(options_.vmm ? release_until(0, blocked) : free_segments(lock, 0));
    in_vain = budget_.used() == before ? in_vain + 1 : 0;
  } while (budget_.used() != 0 && in_vain < 2);
  if (!options_.vmm) return true;
  for (const Region& region : space_.regions) {
    // What could not be unmapped, because a stream captures or the driver refuses, keeps its addresses.
    const Block* range = region.first;
    while (range != nullptr && range->is(State::bare)) range = range->next;
    if (range == nullptr) (void)driver_.release_addresses(region.base, region.size);
  }
  return true;
}

void Pool::lock_all() noexcept {
  mutex_.lock();
  for (const auto& cache : caches_) cache->lock.lock();
}

void Pool::unlock_all() noexcept {
  for (const auto& cache : caches_) cache->lock.unlock();
  mutex_.unlock();
}

}  // namespace gpupool
