// SPDX-License-Identifier: Apache-2.0
// The driver's pools that this process has, of all devices.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "frameworks/audit/account.hpp"
#include "frameworks/audit/table.hpp"
#include "frameworks/audit/types.hpp"

namespace gpupool::audit {

struct Pool {
  std::atomic<CUmemoryPool> handle;  // null: no pool, or one that is destroyed and still has memory out
  std::atomic<int> device;
  std::atomic<int> holds;
  Pooled pooled;
};

/// While the driver is asked about a pool that its user may destroy at any time: that waits.
class PoolHold {
 public:
  explicit PoolHold(Pool& pool) noexcept : pool_(pool) {
    ++pool.holds;
    handle_ = pool.handle;
  }
  ~PoolHold() { --pool_.holds; }
  PoolHold(const PoolHold&) = delete;
  PoolHold& operator=(const PoolHold&) = delete;

  /// Null: it is gone.
  CUmemoryPool handle() const noexcept { return handle_; }

 private:
  Pool& pool_;
  CUmemoryPool handle_;
};

/// Valid as zeros. Pools stay at their places, so to find one takes no lock.
class PoolList {
 public:
  static constexpr size_t kMost = 256;

  Pool* find(CUmemoryPool handle) noexcept;
  /// The one that is there, or a new one; null: there are too many.
  Pool* add(CUmemoryPool handle, int device) noexcept;
  /// Before the driver destroys it, and can give the handle again: once nobody holds it. `end` follows, or
  /// `restore` if the driver refuses.
  void forget(Pool& pool) noexcept;
  void restore(Pool& pool, CUmemoryPool handle) noexcept { pool.handle = handle; }

  uint8_t number_of(const Pool& pool) const noexcept { return static_cast<uint8_t>(&pool - pools_.data()); }
  Pool& at(uint8_t number) noexcept { return pools_[number]; }

  template <typename Function>
  void for_each_of(int device, Function function) noexcept {
    const size_t end = end_;
    for (size_t at = 0; at < end; ++at) {
      if (pools_[at].handle == nullptr || pools_[at].device != device) continue;
      const PoolHold hold(pools_[at]);
      if (hold.handle() != nullptr && pools_[at].device == device) function(pools_[at], hold.handle());
    }
  }

 private:
  SpinLock lock_;            // of adding
  std::atomic<size_t> end_;  // none has ever been behind it
  std::array<Pool, kMost> pools_;
};

}  // namespace gpupool::audit
