// SPDX-License-Identifier: Apache-2.0
// The caller's function that may free memory for a malloc that would fail.
#pragma once

#include <cstdint>

#include "base/no_copy.hpp"
#include "gpupool/gpupool.h"

namespace gpupool::internal {

class PoolLock;
struct PoolState;

/// Guarded by the pool's lock.
class OomHandler : NoCopy {
 public:
  explicit OomHandler(PoolState& pool) noexcept : pool_(pool) {}

  void set(gpupool_oom_fn_t fn, void* user) noexcept {
    fn_ = fn;
    user_ = user;
  }
  /// So often, at most, one malloc or wake asks: a handler that always says yes must not hold it for ever.
  /// More than any that frees a piece at a time needs.
  static constexpr uint32_t kMostAttempts = 100'000;

  /// Calls it with the lock given up, unless this is one attempt too many. True if the malloc shall be tried
  /// again.
  bool ask(PoolLock& lock, uint64_t bytes, uint32_t attempt);
  /// Whether the pool is there for its last frees only.
  bool has_destroyed_pool() const noexcept;

 private:
  PoolState& pool_;
  gpupool_oom_fn_t fn_ = nullptr;
  void* user_ = nullptr;
};

}  // namespace gpupool::internal
