// SPDX-License-Identifier: Apache-2.0
#include "pool/request/capacity.hpp"

#include <algorithm>
#include <cinttypes>
#include <optional>

#include "base/defer.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/memory/release.hpp"
#include "pool/memory/source.hpp"
#include "pool/request/ask_group.hpp"
#include "pool/request/reclaimer.hpp"

namespace gpupool::internal {

Status Capacity::trim(uint64_t target, uint64_t& released, const char* why) {
  PoolLock lock = pool_.enter();
  const Ledger::Totals before = pool_.ledger.totals();
  const uint64_t out = pool_.ledger.reserved().out;
  reclaimer_.drain_all(lock);
  reclaimer_.settle_all_pending(lock);
  (void)reclaimer_.release_kept(false);
  bool blocked = !pool_.pending.empty();
  Status status = source_.release(lock, target, true, blocked);
  if (status == kSuccess && blocked && pool_.ledger.used() > target) {
    status = reclaimer_.wait_for_frees(lock, why, false);
    const Status rest = source_.release(lock, target, true, blocked);
    if (status == kSuccess) status = rest;
  }
  released = pool_.ledger.reserved().out - out;
  pool_.log.released(before, why);
  return status;
}

Status Capacity::trim_by(uint64_t bytes, uint64_t& released, const char* why) {
  const uint64_t used = pool_.ledger.used();
  return trim(used - std::min(used, bytes), released, why);
}

uint64_t Capacity::release_unasked(uint64_t most, const char* why) {
  const KeepError keep_error;
  PoolLock lock = pool_.enter();
  const Ledger::Totals before = pool_.ledger.totals();
  reclaimer_.drain_all(lock);
  reclaimer_.settle_all_pending(lock);
  const uint64_t used = pool_.ledger.used();
  bool blocked = false;
  (void)source_.release(lock, used - std::min(used, most), false, blocked);
  pool_.log.released(before, why);
  return pool_.ledger.totals().bytes_released - before.bytes_released;
}

Status Capacity::reserve(uint64_t target, StreamUser user) {
  if (target > kSizeMax) {
    return fail(GPUPOOL_ERROR_OUT_OF_MEMORY, "%" PRIu64 " bytes are more than any device has", target);
  }
  if (const Status status = check_stream(user); status != kSuccess) return status;
  PoolLock lock = pool_.enter();
  if (const Status status = pool_.gate.admit(lock); status != kSuccess) return status;
  StreamState* state = nullptr;
  if (const Status status = pool_.streams.find(user, state); status != kSuccess) return status;
  pool_.streams.leave_event(user, *state);
  const uint64_t used = pool_.ledger.used();
  if (used >= target) return kSuccess;
  const uint64_t missing = align_up(target - used, kGranule);
  const Budget& budget = pool_.ledger.budget();
  std::optional<share::Turn> turn;  // until the memory is taken
  if (missing > budget.room() && !ask_group(lock, pool_, missing, turn)) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "reserving %" PRIu64 " bytes would go over the limit of %" PRIu64,
                target, budget.limit());
  }
  // The lock was given up.
  if (const Status status = pool_.gate.admit(lock); status != kSuccess) return status;
  ++state->inside;
  const Defer leave([&] { --state->inside; });
  const Ledger::Totals before = pool_.ledger.totals();
  const Status status = source_.reserve(lock, *state, target);
  if (status == kSuccess) pool_.log.grew(before, *state, 0);
  return status;
}

Status Capacity::set_limit(uint64_t asked, const Ceiling& ceiling) {
  if (pool_.options.is_child) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the limit of a child pool is its parent's: set it there");
  }
  Budget& budget = pool_.ledger.budget();
  const uint64_t limit = std::min(asked, ceiling.bytes);
  uint64_t of_children = 0;  // child pools keep what they have
  if (budget.set_limit(asked, ceiling)) return kSuccess;
  {
    PoolLock lock = pool_.enter();
    reclaimer_.drain_all(lock);
    if (!pool_.pending.empty() || pool_.options.debug.any()) {
      if (const Status status = reclaimer_.wait_for_frees(lock, "a lower limit", false); status != kSuccess)
        return status;
    }
    const uint64_t used = pool_.ledger.used();
    of_children = budget.used_by_others();
    // No thread's cache has any blocks now, so this is exact.
    if (const uint64_t floor = used - std::min(used, releasable(pool_)); floor + of_children > limit) {
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
  if (budget.set_limit(asked, ceiling)) return kSuccess;
  return fail(GPUPOOL_ERROR_OVER_LIMIT, "%" PRIu64 " bytes are reserved, more than a limit of %" PRIu64,
              budget.used() + budget.used_by_others(), limit);
}

}  // namespace gpupool::internal
