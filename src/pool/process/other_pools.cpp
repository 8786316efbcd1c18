// SPDX-License-Identifier: Apache-2.0
#include "pool/process/other_pools.hpp"

#include <algorithm>
#include <vector>

#include "pool/pool.hpp"
#include "pool/process/registry.hpp"
#include "pool/process/sleep_all.hpp"

namespace gpupool::internal {
namespace {

/// Whether it is another pool on the same device. That of one that was inherited over fork must not be
/// touched.
bool is_on_device(PoolState& pool, const Pool& other) noexcept {
  const DeviceInfo& own = pool.device.info();
  const DeviceInfo& its = other.device().info();
  return other.id() != pool.id && other.is_usable() && its.backend == own.backend &&
         its.ordinal == own.ordinal;
}

/// What a request that failed like this could have now, as far as the device or the limit says.
uint64_t room_after(PoolState& pool, Status shortage) {
  if (shortage == GPUPOOL_ERROR_OVER_LIMIT) return pool.ledger.budget().room();
  uint64_t free = 0;
  return pool.device.raw().free_memory(free) == kSuccess ? free : 0;
}

}  // namespace

bool OtherPools::ask_parent(PoolLock& lock, PoolState& pool, uint64_t bytes) {
  const std::shared_ptr<Pool> parent = parent_.lock();
  if (parent == nullptr) return false;
  uint64_t released = 0;
  const Status status =
      pool.leave_for(lock, [&] { return parent->trim_by(align_up(bytes, kGranule), released, "trim"); });
  return status == kSuccess && released != 0;
}

void OtherPools::empty(PoolLock& lock, PoolState& pool) {
  pool.leave_for(lock, [&] {
    const auto pools = Registry::instance().all();
    for (const auto& other : pools) {
      if (!is_on_device(pool, *other)) continue;
      const auto has_ended = [&] {
        return other->handle()->life.load(std::memory_order_acquire) == Life::destroyed;
      };
      uint64_t released = 0;
      if (has_ended() || !other->options().is_child) (void)other->trim(0, released, "another pool is short");
      if (has_ended()) Registry::instance().end_if_empty(*other->handle());
    }
  });
}

bool OtherPools::put_to_sleep(PoolLock& lock, PoolState& pool, uint64_t bytes, Status shortage) {
  const KeepError keep_error;
  const Budget& budget = pool.ledger.budget();
  const bool is_limit = shortage == GPUPOOL_ERROR_OVER_LIMIT;
  // What looks like enough may be in pieces, or another's by now.
  const uint64_t missing = std::max(bytes - std::min(bytes, room_after(pool, shortage)), kGranule);
  bool some_sleep = false;
  const uint64_t given = pool.leave_for(lock, [&] {
    std::vector<std::shared_ptr<Pool>> pools = Registry::instance().all();
    std::erase_if(pools, [&](const auto& other) {
      return !is_on_device(pool, *other) || (is_limit && !other->shares_limit(budget));
    });
    const uint64_t freed = sleep_allowed(pools, missing);
    some_sleep = std::any_of(pools.begin(), pools.end(), [](const auto& other) {
      return other->sleeper().state() != GPUPOOL_SLEEP_STATE_AWAKE;
    });
    return freed;
  });
  // One of them may have gone to sleep for another request since this one failed, and there is room now.
  return given != 0 || (some_sleep && room_after(pool, shortage) >= bytes);
}

}  // namespace gpupool::internal
