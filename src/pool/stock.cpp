// SPDX-License-Identifier: Apache-2.0
#include "pool/stock.hpp"

#include <algorithm>
#include <cinttypes>
#include <optional>

#include "base/defer.hpp"
#include "pool/debugger.hpp"
#include "pool/door.hpp"
#include "pool/pending.hpp"
#include "pool/rooms.hpp"
#include "pool/source.hpp"
#include "pool/statistics.hpp"
#include "pool/way_back.hpp"

namespace gpupool::internal {

Status Stock::trim(uint64_t target, uint64_t& released, const char* why) {
  QuietLock lock = door_.enter();
  const Ledger::Standing before = rooms_.ledger.standing();
  const uint64_t out = rooms_.ledger.reserved().out;
  way_back_.drain_all(lock);
  way_back_.settle_all_pending(lock);
  if (debugger_ != nullptr) (void)debugger_->release_waiting();
  bool blocked = !pending_.empty();
  Status status = source_.release(lock, target, true, blocked);
  if (status == kSuccess && blocked && rooms_.ledger.used() > target) {
    status = way_back_.wait_for_frees(lock, why, false);
    const Status rest = source_.release(lock, target, true, blocked);
    if (status == kSuccess) status = rest;
  }
  released = rooms_.ledger.reserved().out - out;
  rooms_.narrator.released(before, why);
  return status;
}

Status Stock::trim_by(uint64_t bytes, uint64_t& released, const char* why) {
  const uint64_t used = rooms_.ledger.used();
  return trim(used - std::min(used, bytes), released, why);
}

Status Stock::reserve(uint64_t target, Stream stream) {
  if (target > kSizeMax) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "%" PRIu64 " bytes are more than any device has", target);
  }
  if (const Status status = check_stream(stream); status != kSuccess) return status;
  QuietLock lock = door_.enter();
  if (const Status status = sleeper_.admit(lock); status != kSuccess) return status;
  StreamState* state = nullptr;
  if (const Status status = rooms_.streams.find(stream, state); status != kSuccess) return status;
  const uint64_t used = rooms_.ledger.used();
  if (used >= target) return kSuccess;
  const uint64_t missing = align_up(target - used, kGranule);
  const Budget& budget = rooms_.ledger.budget();
  std::optional<share::Turn> turn;  // until the memory is taken
  if (missing > budget.room() && !ask_neighbours(lock, rooms_, missing, turn)) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "reserving %" PRIu64 " bytes would go over the limit of %" PRIu64,
                target, budget.limit());
  }
  ++state->inside;
  const Defer leave([&] { --state->inside; });
  const Ledger::Standing before = rooms_.ledger.standing();
  const Status status = source_.reserve(lock, *state, target);
  if (status == kSuccess) rooms_.narrator.grew(before, *state, 0);
  return status;
}

Status Stock::set_limit(uint64_t limit) {
  if (rooms_.options.is_child) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the limit of a child pool is its parent's: set it there");
  }
  Budget& budget = rooms_.ledger.budget();
  uint64_t of_children = 0;  // child pools keep what they have
  if (budget.set_limit(limit)) return kSuccess;
  {
    QuietLock lock = door_.enter();
    way_back_.drain_all(lock);
    if (!pending_.empty() || debugger_ != nullptr) {
      if (const Status status = way_back_.wait_for_frees(lock, "a lower limit", false); status != kSuccess)
        return status;
    }
    const uint64_t used = rooms_.ledger.used();
    of_children = budget.used_by_others();
    // No thread's cache has any blocks now, so this is exact.
    if (const uint64_t floor = used - std::min(used, statistics_.releasable()); floor + of_children > limit) {
      return of_children == 0
                 ? fail(GPUPOOL_ERROR_OVER_LIMIT,
                        "live blocks hold %" PRIu64 " bytes, more than a limit of %" PRIu64, floor, limit)
                 : fail(GPUPOOL_ERROR_OVER_LIMIT,
                        "live blocks hold %" PRIu64 " bytes and child pools %" PRIu64
                        ", more than a limit of %" PRIu64,
                        floor, of_children, limit);
    }
  }
  uint64_t released = 0;
  if (const Status status = trim(limit - of_children, released, "a lower limit"); status != kSuccess)
    return status;
  if (budget.set_limit(limit)) return kSuccess;
  return fail(GPUPOOL_ERROR_OVER_LIMIT, "%" PRIu64 " bytes are reserved, more than a limit of %" PRIu64,
              budget.used() + budget.used_by_others(), limit);
}

}  // namespace gpupool::internal
