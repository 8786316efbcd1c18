// SPDX-License-Identifier: Apache-2.0
#include "frameworks/audit/pool_list.hpp"

#include <sched.h>

#include <mutex>

namespace gpupool::audit {

Pool* PoolList::find(CUmemoryPool handle) noexcept {
  const size_t end = end_;
  for (size_t at = 0; handle != nullptr && at < end; ++at)
    if (pools_[at].handle.load(std::memory_order_acquire) == handle) return &pools_[at];
  return nullptr;
}

Pool* PoolList::add(CUmemoryPool handle, int device) noexcept {
  const std::lock_guard lock(lock_);
  if (Pool* const known = find(handle); known != nullptr) return known;
  for (size_t at = 0; at < kMost; ++at) {
    Pool& pool = pools_[at];
    if (pool.handle != nullptr || !pool.pooled.begin()) continue;
    pool.device = device;
    pool.handle.store(handle, std::memory_order_release);
    if (at >= end_) end_ = at + 1;
    return &pool;
  }
  return nullptr;
}

void PoolList::forget(Pool& pool) noexcept {
  pool.handle = nullptr;
  while (pool.holds != 0) (void)sched_yield();
}

}  // namespace gpupool::audit
