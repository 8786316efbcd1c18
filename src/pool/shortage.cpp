// SPDX-License-Identifier: Apache-2.0
#include "pool/shortage.hpp"

#include <algorithm>

#include "pool/pool.hpp"

namespace gpupool::internal {

constinit const Shortage::Stage Shortage::kStages[] = {
    {"freed blocks have been looked at", When::always, &Shortage::release_waiting, 1},
    {"all caches are drained, and all streams waited for", When::always, &Shortage::wait_for_all, 1},
    {"the other pools on the device are emptied", When::device, &Shortage::empty_others, 1},
    {"the parent's cache is emptied", When::limit, &Shortage::ask_parent, 1},
    {"the other pools of this process are emptied for the group", When::group_limit, &Shortage::empty_others,
     1},
    {"neighbours have given memory back", When::always, &Shortage::ask_group, 3},
    {"the handler asks for another try", When::always, &Shortage::ask_handler, ~uint32_t{0}},
};

Status Shortage::relieve(Status status, Range*& block) {
  for (const Stage& stage : kStages) {
    for (attempt_ = 1; attempt_ <= stage.times && is_shortage(status); ++attempt_) {
      if (!applies(stage.when, status)) break;
      bool helped = false;
      if (const Status acted = (this->*stage.act)(helped); acted != kSuccess) return acted;
      if (!helped) break;
      pool_.narrator_.is_short(bytes_, state_, stage.what);
      status = pool_.grow(lock_, state_, bytes_, alignment_, true, block);
    }
  }
  return status;
}

bool Shortage::applies(When when, Status status) const {
  switch (when) {
    case When::always: return true;
    case When::device: return status == GPUPOOL_ERROR_OUT_OF_MEMORY;
    case When::limit: return status == GPUPOOL_ERROR_OVER_LIMIT;
    case When::group_limit:  // the group has no room, and the pool's own limit has
      return pool_.company_.neighbours != nullptr && status == GPUPOOL_ERROR_OVER_LIMIT &&
             bytes_ <= pool_.ledger_.budget().own_room();
  }
  return false;
}

Status Shortage::release_waiting(bool& helped) {
  helped = pool_.debugger_ != nullptr && pool_.debugger_->release_waiting();
  return kSuccess;
}

Status Shortage::wait_for_all(bool& helped) {
  pool_.drain_all(lock_);
  if (const Status status = pool_.wait_for_streams(lock_, "shortage"); status != kSuccess) return status;
  if (pool_.debugger_ != nullptr) pool_.debugger_->empty_quarantine();
  helped = true;
  return kSuccess;
}

Status Shortage::empty_others(bool& helped) {
  pool_.empty_other_pools(lock_);
  helped = true;
  return kSuccess;
}

Status Shortage::ask_parent(bool& helped) {
  helped = pool_.make_room(lock_, bytes_ + alignment_);
  return kSuccess;
}

/// Asks for what is missing first. What came while the lock was given up may be gone again, or be in pieces
/// that do not fit; so later attempts ask for the whole.
Status Shortage::ask_group(bool& helped) {
  if (pool_.company_.neighbours == nullptr) return kSuccess;
  const uint64_t whole = align_up(bytes_ + alignment_ - kUnit, kGranule);
  const uint64_t there = pool_.space_.free_chunks.bytes() + pool_.backing_.bytes_in_hand();
  const uint64_t want = attempt_ == 1 ? std::max(kGranule, whole - std::min(whole, there)) : whole;
  helped = pool_.ask_neighbours(lock_, want, pool_.company_.neighbours->wait_ns());
  return kSuccess;
}

/// Waits too, since what the handler freed may still be in use.
Status Shortage::ask_handler(bool& helped) {
  helped = pool_.ask_handler(lock_, bytes_, attempt_);
  return helped ? pool_.wait_for_streams(lock_, "the handler's frees") : kSuccess;
}

}  // namespace gpupool::internal
