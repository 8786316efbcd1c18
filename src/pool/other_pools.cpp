// SPDX-License-Identifier: Apache-2.0
#include "pool/other_pools.hpp"

#include "base/defer.hpp"
#include "pool/pool.hpp"
#include "pool/registry.hpp"

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

void OtherPools::empty(QuietLock& lock) {
  const DeviceInfo& own = rooms_.device.info();
  lock.unlock();
  const Defer relock([&] {
    lock.lock();
    rooms_.streams.next_round();
  });
  const auto pools = Registry::instance().all();
  for (const auto& pool : pools) {
    const DeviceInfo& other = pool->device().info();
    // Pools that were inherited over fork have a device that must not be touched.
    if (pool->id() == rooms_.id || !pool->is_usable() || other.backend != own.backend ||
        other.ordinal != own.ordinal)
      continue;
    const bool has_ended = pool->handle()->life.load(std::memory_order_acquire) == Life::destroyed;
    uint64_t released = 0;
    if (has_ended || !pool->options().is_child) (void)pool->trim(0, released, "another pool is short");
    if (has_ended) Registry::instance().end_if_empty(*pool->handle());
  }
}

}  // namespace gpupool::internal
