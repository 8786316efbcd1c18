// SPDX-License-Identifier: Apache-2.0
#include "pool/shortage.hpp"

#include <algorithm>

#include "pool/backing.hpp"
#include "pool/debugger.hpp"
#include "pool/oom_handler.hpp"
#include "pool/other_pools.hpp"
#include "pool/provider.hpp"
#include "pool/rooms.hpp"
#include "pool/way_back.hpp"

namespace gpupool::internal {

constinit const Shortage::Stage Shortage::kStages[] = {
    {"freed blocks have been looked at", When::always, &Shortage::release_waiting, 1},
    {"all caches are drained, and all streams waited for", When::always, &Shortage::wait_for_all, 1},
    {"the other pools on the device are emptied", When::device, &Shortage::empty_others, 1},
    {"the parent's cache is emptied", When::limit, &Shortage::ask_parent, 1},
    {"the other pools of this process are emptied for the group", When::group_limit, &Shortage::empty_others,
     1},
    {"neighbours have given memory back", When::always, &Shortage::ask_group, 3},
    {"pools that may be are put to sleep", When::always, &Shortage::sleep_others, kMostSleeps},
    {"the handler asks for another try", When::always, &Shortage::ask_handler, ~uint32_t{0}},
};

Status Shortage::relieve(Status status, Range*& block) {
  for (const Stage& stage : kStages) {
    for (attempt_ = 1; attempt_ <= stage.times && is_shortage(status); ++attempt_) {
      if (!applies(stage.when, status)) break;
      bool helped = false;
      if (const Status acted = (this->*stage.act)(status, helped); acted != kSuccess) return acted;
      if (!helped) break;
      means_.rooms.narrator.is_short(bytes_, state_, stage.what);
      status = provider_.grow(lock_, state_, bytes_, alignment_, true, block);
      turn_.reset();
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
      return means_.rooms.company.neighbours != nullptr && status == GPUPOOL_ERROR_OVER_LIMIT &&
             bytes_ <= means_.rooms.ledger.budget().own_room();
  }
  return false;
}

Status Shortage::release_waiting(Status, bool& helped) {
  helped = means_.debugger != nullptr && means_.debugger->release_waiting();
  return kSuccess;
}

Status Shortage::wait_for_all(Status, bool& helped) {
  means_.way_back.drain_all(lock_);
  helped = true;
  return means_.way_back.wait_for_frees(lock_, "shortage", true);
}

Status Shortage::empty_others(Status, bool& helped) {
  means_.others.empty(lock_);
  helped = true;
  return kSuccess;
}

Status Shortage::ask_parent(Status, bool& helped) {
  helped = means_.others.ask_parent(lock_, bytes_ + alignment_);
  return kSuccess;
}

/// What is missing, first. What came while the lock was given up may be gone again, or be in pieces that do
/// not fit; so later attempts want the whole.
uint64_t Shortage::wanted() const noexcept {
  const uint64_t whole = align_up(bytes_ + alignment_ - kUnit, kGranule);
  const uint64_t there = means_.rooms.space.free_chunks.bytes() + means_.backing.bytes_in_hand();
  return attempt_ == 1 ? std::max(kGranule, whole - std::min(whole, there)) : whole;
}

Status Shortage::ask_group(Status, bool& helped) {
  if (means_.rooms.company.neighbours != nullptr)
    helped = ask_neighbours(lock_, means_.rooms, wanted(), turn_);
  return kSuccess;
}

Status Shortage::sleep_others(Status shortage, bool& helped) {
  helped = means_.others.put_to_sleep(lock_, wanted(), shortage);
  return kSuccess;
}

/// Waits too, since what the handler freed may still be in use.
Status Shortage::ask_handler(Status, bool& helped) {
  helped = means_.handler.ask(lock_, bytes_, attempt_);
  return helped ? means_.way_back.wait_for_frees(lock_, "the handler's frees", true) : kSuccess;
}

}  // namespace gpupool::internal
