// SPDX-License-Identifier: Apache-2.0
#include "pool/request/slow_free.hpp"

#include <cinttypes>
#include <mutex>

#include "base/defer.hpp"
#include "pool/memory/blocks.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/memory/protections.hpp"
#include "pool/request/reclaimer.hpp"
#include "pool/request/watcher.hpp"

namespace gpupool::internal {

/// The first part of a free: takes a live block from its owner. It is then cached, counted as freed, and in
/// no bin. Null, with a status, if the address is no live block's.
Range* SlowFree::begin_free(Address address, Status& status) {
  Range* block = pool_.space.map.find(address);
  ThreadCache* cache = block != nullptr ? owner_of(*block) : nullptr;
  if (cache != nullptr && block->address == address) {
    WatchedCall seen;
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
  status = not_a_block(pool_.space, address);
  return nullptr;
}

/// Whether a stream other than the block's own may be using a block that its user frees, and which; null:
/// any. A free never fails because the driver does not say whether the stream captures.
Status SlowFree::find_user(const Range& block, StreamUser& user, bool& is_other, StreamState*& state) {
  is_other = true;
  state = nullptr;
  if (user.stream() == GPUPOOL_STREAM_UNKNOWN) return kSuccess;
  if (const Status status = check_stream(user); status != kSuccess) return status;
  StreamState& home = heap_of(block).state();
  const Stream its = pool_.streams.stream_of(block);
  const bool is_lent = its != home.order.stream();
  const bool has_gone = its == user.stream() && (is_lent || home.order.is_retired());
  // The number was released, and may have come again.
  if (has_gone && !pool_.streams.knows(user.stream())) {
    state = &pool_.streams.find_unseen();
    return kSuccess;
  }
  state = &pool_.streams.find_user(user);
  // A capture's block may be freed on its stream after the capture: the same queue, in the same order.
  const bool is_same =
      !home.order.is_retired() && state->capture == 0 && state->order.stream() == home.order.stream();
  is_other = !is_same && state != &home;
  return kSuccess;
}

/// Whether memory of a block is away. Its sleep has waited for all work that used it, and none may use it
/// until it is back: its free waits for no stream.
bool SlowFree::is_asleep(const Range& block) const noexcept {
  return (!pool_.gate.is_awake() || pool_.gate.is_alone(block.address)) && has_asleep(block);
}

Status SlowFree::free(Address address, StreamUser user) {
  // An address that is no block must not make its stream known.
  Range* block = find_live(pool_.space, address);
  if (block == nullptr) return not_a_block(pool_.space, address);
  bool is_other = false;
  StreamState* state = nullptr;
  if (const Status status = find_user(*block, user, is_other, state); status != kSuccess) return status;
  pool_.pending.prepare();
  if (const Status status = protections_.undo(*block); status != kSuccess) return status;
  Status status = kSuccess;
  block = begin_free(address, status);
  if (block == nullptr) return status;
  pool_.streams.end_loan(*block);
  if (is_other) pool_.pending.add_use(*block, state);
  reclaimer_.note_free(address);
  block->end_notes();
  StreamState& home = heap_of(*block).state();
  const uint64_t bytes = block->size;
  if (is_asleep(*block)) pool_.pending.remove_uses(*block);
  if (pool_.pending.add(*block)) {
    // The block stays counted in the cache that allocated it.
    ThreadCache& owner = *owner_of(*block);
    const std::lock_guard owner_lock(owner.lock);
    owner.counters.add_pending(group_of(bytes), block->requested(), bytes);
    block->become(State::pending);
    home.uncovered += bytes;
  } else {
    reclaimer_.settle(*block);
  }
  // The user of the freed block's stream, or of another, is here, and so may leave an event there.
  StreamState& touched = is_other && state != nullptr ? *state : home;
  if (is_other) touched.uncovered += bytes;
  if (touched.order.stream() == user.stream()) pool_.streams.leave_event(user, touched);
  return kSuccess;
}

Status SlowFree::record_stream(Address address, const StreamUser& user) {
  Range* block = pool_.space.map.find(address);
  ThreadCache* owner = block != nullptr ? owner_of(*block) : nullptr;
  if (owner == nullptr || block->address != address || !block->is(State::live))
    return not_a_block(pool_.space, address);
  pool_.pending.prepare();
  StreamState* state = &pool_.streams.find_user(user);
  if (state == &heap_of(*block).state()) return kSuccess;
  pool_.streams.leave_event(user, *state);
  const std::lock_guard cache_lock(owner->lock);
  if (!block->is(State::live)) {
    return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "0x%" PRIx64 " was freed meanwhile", address);
  }
  block->begin_notes();
  pool_.pending.add_use(*block, state);
  watcher_.record_use(*block, user.stream());
  return kSuccess;
}

}  // namespace gpupool::internal
