// SPDX-License-Identifier: Apache-2.0
#include "pool/request/shortage.hpp"

#include <algorithm>

#include "pool/memory/pool_state.hpp"
#include "pool/request/ask_group.hpp"
#include "pool/request/helpers.hpp"
#include "pool/request/oom_handler.hpp"
#include "pool/request/reclaimer.hpp"

namespace gpupool::internal {

constinit const Shortage::Stage Shortage::kStages[] = {
    {"freed blocks have been looked at", When::always, &Shortage::release_waiting, 1},
    {"all caches are drained, and all streams waited for", When::always, &Shortage::wait_for_all, 1},
    {"idle memory between blocks of other streams is looked at", When::always, &Shortage::borrow, 1},
    {"the other pools on the device are emptied", When::device, &Shortage::empty_others, 1},
    {"the parent's cache is emptied", When::limit, &Shortage::ask_parent, 1},
    {"the other pools of this process are emptied for the group", When::group_limit, &Shortage::empty_others,
     1},
    {"neighbours have given memory back", When::always, &Shortage::ask_group, 3},
    {"pools that may be are put to sleep", When::always, &Shortage::sleep_others, kMostSleeps},
    {"the handler asks for another try", When::always, &Shortage::ask_handler, OomHandler::kMostAttempts},
};

Status Shortage::relieve(PoolLock& lock, const Request& request, const Retry& retry, Status status,
                         Range*& block) {
  Case it{.lock = lock, .request = request, .status = status};
  for (const Stage& stage : kStages) {
    for (it.attempt = 1; it.attempt <= stage.times && is_shortage(it.status); ++it.attempt) {
      if (!applies(stage.when, it)) break;
      it.helped = false;
      if (const Status acted = (this->*stage.act)(it); acted != kSuccess) return acted;
      if (it.borrowed != nullptr) {
        block = it.borrowed;
        return kSuccess;
      }
      if (interrupts::has_given_up()) return interrupts::give_up();
      if (!it.helped) break;
      pool_.log.is_short(request.bytes, request.state, stage.what);
      it.status = retry(block);
      it.turn.reset();
    }
  }
  return it.status;
}

/// A wait that the driver refuses is one step without success, and others may still help.
Status Shortage::unless_refused(Status waited) noexcept {
  return waited == GPUPOOL_ERROR_DRIVER ? kSuccess : waited;
}

bool Shortage::applies(When when, const Case& it) const {
  switch (when) {
    case When::always: return true;
    case When::device: return it.status == GPUPOOL_ERROR_OUT_OF_MEMORY;
    case When::limit: return it.status == GPUPOOL_ERROR_OVER_LIMIT;
    case When::group_limit:  // the group has no room, and the pool's own limit has
      return pool_.group.limit != nullptr && it.status == GPUPOOL_ERROR_OVER_LIMIT &&
             it.request.bytes <= pool_.ledger.budget().own_room();
  }
  return false;
}

Status Shortage::release_waiting(Case& it) {
  it.helped = reclaimer_.release_kept(false);
  return kSuccess;
}

Status Shortage::wait_for_all(Case& it) {
  reclaimer_.drain_all(it.lock);
  it.helped = true;
  return unless_refused(reclaimer_.wait_for_frees(it.lock, "shortage", true));
}

/// A chunk that another stream's block touches cannot move, but what is idle around the block serves anybody.
/// The new block stays in that stream's heap, and its own stream counts as a user of it.
Status Shortage::borrow(Case& it) {
  const bool is_graphs = pool_.options.is_child || pool_.captures.hold_all() || it.request.state.capture != 0;
  if (is_graphs || it.request.at != 0 || pool_.options.debug.any() || !pool_.gate.is_awake() ||
      it.request.state.order.capturing())
    return kSuccess;
  for (const auto& other : pool_.streams.all()) {
    if (other->capture != 0 || !other->order.has_passed_all()) continue;
    it.borrowed =
        other->heap(group_of(it.request.bytes)).allocate(it.request.bytes, it.request.alignment, true);
    if (it.borrowed == nullptr) continue;
    try {
      pool_.streams.begin_loan(*it.borrowed, it.request.state);
    } catch (const std::bad_alloc&) {
      heap_of(*it.borrowed).free(std::exchange(it.borrowed, nullptr), 0);
    }
    break;
  }
  return kSuccess;
}

Status Shortage::empty_others(Case& it) {
  helpers_.empty(it.lock, pool_);
  it.helped = true;
  return kSuccess;
}

Status Shortage::ask_parent(Case& it) {
  it.helped = helpers_.ask_parent(it.lock, pool_, it.request.bytes + it.request.alignment);
  return kSuccess;
}

/// What is missing, first. What came while the lock was given up may be gone again, or be in pieces that do
/// not fit; so later attempts want the whole.
uint64_t Shortage::wanted(const Case& it) const noexcept {
  const uint64_t whole = align_up(it.request.hole(), kGranule);
  const uint64_t there = pool_.space.free_chunks.bytes() + pool_.backing.bytes_in_hand();
  return it.attempt == 1 ? std::max(kGranule, whole - std::min(whole, there)) : whole;
}

Status Shortage::ask_group(Case& it) {
  if (pool_.group.limit != nullptr) it.helped = internal::ask_group(it.lock, pool_, wanted(it), it.turn);
  return kSuccess;
}

Status Shortage::sleep_others(Case& it) {
  it.helped = helpers_.put_to_sleep(it.lock, pool_, wanted(it), it.status);
  return kSuccess;
}

/// Waits too, since what the handler freed may still be in use.
Status Shortage::ask_handler(Case& it) {
  it.helped = handler_.ask(it.lock, it.request.bytes, it.attempt);
  if (handler_.has_destroyed_pool())
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the pool has been destroyed, by its out-of-memory handler");
  if (!it.helped) return kSuccess;
  return unless_refused(reclaimer_.wait_for_frees(it.lock, "the handler's frees", true));
}

}  // namespace gpupool::internal
