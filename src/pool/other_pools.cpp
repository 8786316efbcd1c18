// SPDX-License-Identifier: Apache-2.0
#include "pool/other_pools.hpp"

#include <algorithm>
#include <vector>

#include "base/defer.hpp"
#include "pool/pool.hpp"
#include "pool/registry.hpp"
#include "pool/sleep_all.hpp"

namespace gpupool::internal {

bool OtherPools::ask_parent(QuietLock& lock, uint64_t bytes) {
  const std::shared_ptr<Pool> parent = parent_.lock();
  if (parent == nullptr) return false;
  lock.unlock();
  const Defer relock([&] {
    lock.lock();
    rooms_.streams.next_round();
  });
  uint64_t released = 0;
  return parent->trim_by(align_up(bytes, kGranule), released, "trim") == kSuccess && released != 0;
}

/// Whether it is another pool on the same device. That of one that was inherited over fork must not be
/// touched.
bool OtherPools::is_on_device(const Pool& other) const noexcept {
  const DeviceInfo& own = rooms_.device.info();
  const DeviceInfo& its = other.device().info();
  return other.id() != rooms_.id && other.is_usable() && its.backend == own.backend &&
         its.ordinal == own.ordinal;
}

void OtherPools::empty(QuietLock& lock) {
  lock.unlock();
  const Defer relock([&] {
    lock.lock();
    rooms_.streams.next_round();
  });
  const auto pools = Registry::instance().all();
  for (const auto& pool : pools) {
    if (!is_on_device(*pool)) continue;
    const bool has_ended = pool->handle()->life.load(std::memory_order_acquire) == Life::destroyed;
    uint64_t released = 0;
    if (has_ended || !pool->options().is_child) (void)pool->trim(0, released, "another pool is short");
    if (has_ended) Registry::instance().end_if_empty(*pool->handle());
  }
}

/// What a request that failed like this could have now, as far as the device or the limit says.
uint64_t OtherPools::room(Status shortage) const {
  if (shortage == GPUPOOL_ERROR_OVER_LIMIT) return rooms_.ledger.budget().room();
  uint64_t free = 0;
  return rooms_.device.raw().free_memory(free) == kSuccess ? free : 0;
}

bool OtherPools::put_to_sleep(QuietLock& lock, uint64_t bytes, Status shortage) {
  const ErrorRecord cause = last_error();
  const Budget& budget = rooms_.ledger.budget();
  const bool is_limit = shortage == GPUPOOL_ERROR_OVER_LIMIT;
  // What looks like enough may be in pieces, or another's by now.
  const uint64_t missing = std::max(bytes - std::min(bytes, room(shortage)), kGranule);
  bool some_sleep = false;
  uint64_t given = 0;
  {
    lock.unlock();
    const Defer relock([&] {
      lock.lock();
      rooms_.streams.next_round();
      last_error() = cause;
    });
    std::vector<std::shared_ptr<Pool>> pools = Registry::instance().all();
    std::erase_if(pools, [&](const auto& pool) {
      return !is_on_device(*pool) || (is_limit && !pool->shares_limit(budget));
    });
    given = sleep_allowed(pools, missing);
    some_sleep = std::any_of(pools.begin(), pools.end(), [](const auto& pool) {
      return pool->sleeper().state() != GPUPOOL_SLEEP_STATE_AWAKE;
    });
  }
  // One of them may have gone to sleep for another request since this one failed, and there is room now.
  return given != 0 || (some_sleep && room(shortage) >= bytes);
}

}  // namespace gpupool::internal
