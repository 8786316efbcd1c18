// SPDX-License-Identifier: Apache-2.0
// Blocks that several streams use, streams and captures that come and go, and the pool's own end.
#include <algorithm>
#include <cinttypes>

#include "pool/pool.hpp"

namespace gpupool::internal {

Status Pool::record_stream(Address address, Stream stream) {
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  if (address == 0) return kSuccess;
  const Lock lock = enter();
  Range* block = space_.map.find(address);
  ThreadCache* owner = block != nullptr ? owner_of(*block) : nullptr;
  if (owner == nullptr || block->address != address || !block->is(State::live)) return not_a_block(address);
  pending_.prepare();
  StreamState* state = &streams_.find_user(stream);
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

Status Pool::release_stream(Stream stream) {
  return retire_stream(stream, true);
}

Status Pool::park_stream(Stream stream) {
  return retire_stream(stream, false);
}

/// Does not touch a stream again: for good, or until it is named again. From here on, frees of its blocks
/// take the long way, and no thread keeps a lane for it.
Status Pool::retire_stream(Stream stream, bool for_good) {
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  Lock lock = enter();
  for (const SizeGroup group : {SizeGroup::large, SizeGroup::small}) drain_stream(lock, stream, group);
  if (debugger_ != nullptr) debugger_->look_at_freed(stream);
  const bool is_known = streams_.knows(stream);
  const Status status = streams_.retire(stream, for_good, [this](Stream leaving) {
    caches_.for_each([&](ThreadCache& cache) { free_all_to_heap(caches_.close_lane(cache, leaving)); });
  });
  if (status == kSuccess && is_known)
    narrator_.say("stream 0x%" PRIxPTR " is %s", stream, for_good ? "released" : "parked");
  return status;
}

Status Pool::set_oom_handler(gpupool_oom_fn_t fn, void* user) {
  const Lock lock(mutex_);
  oom_fn_ = fn;
  oom_user_ = user;
  return kSuccess;
}

Status Pool::synchronize() {
  Lock lock = enter();
  const Status status = wait_for_streams(lock, "synchronize");
  settle_all_pending(lock);
  source_->settle();
  return status;
}

Status Pool::block_info(Address address, gpupool_block_t& info) {
  Lock lock(mutex_);
  const Range* block = space_.map.find_at_or_before(address);
  if (block == nullptr || address >= block->end()) return not_a_block(address);
  ThreadCache* owner = owner_of(*block);
  if (owner == nullptr) return not_a_block(block->address);
  const std::lock_guard cache_lock(owner->lock);
  if (!block->is(State::live)) {
    return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "the block at 0x%" PRIx64 " has been freed", block->address);
  }
  info.address = block->address;
  info.requested_bytes = block->requested();
  info.allocated_bytes = block->size;
  info.stream = heap_of(*block).state().order.stream();
  info.state = sleeper_.is_asleep(*block) ? GPUPOOL_BLOCK_ASLEEP : GPUPOOL_BLOCK_LIVE;
  info.device = device_.info().ordinal;
  return kSuccess;
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

Status Pool::export_block(Address address, std::string& handle) {
  Lock lock = enter();
  return exports_.add(lock, address, handle);
}

Status Pool::import_block(std::string_view handle, Address& address, uint64_t& size) {
  const Lock lock = enter();
  return imports_.open(handle, address, size);
}

Status Pool::close_import(Address address) {
  Lock lock = enter();
  return imports_.close(lock, address);
}

void Pool::forget_handoffs() noexcept {
  exports_.forget();
  imports_.forget();
}

/// Lets a destroyed pool end. False while blocks are live, for all threads but one, and while a capturing
/// stream or a failing driver keeps memory from going; after that it may be tried again. Until then the
/// pool touches no stream that it could let go of, since its owner may destroy them.
bool Pool::try_to_end() {
  Lock lock = enter();
  sleeper_.end_allowance(lock);
  drain_all(lock);
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
    (void)wait_for_streams(lock, "the pool's end");
    settle_all_pending(lock);
    source_->end(lock);
  }
  is_ending_ = (ledger_.used() == 0 && imports_.empty()) || !handle_is_usable();
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
