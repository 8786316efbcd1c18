// SPDX-License-Identifier: Apache-2.0
// The pool's figures, as gpupool_stats gives them.
#pragma once

#include "gpupool/gpupool.h"

namespace gpupool::internal {

class Sleeper;
struct PoolState;

/// Guarded by the pool's lock. Takes the caches' locks.
class Statistics {
 public:
  Statistics(PoolState& pool, const Sleeper& sleeper) noexcept : pool_(pool), sleeper_(sleeper) {}

  void read(gpupool_stats_t& stats) noexcept;
  void reset_peaks() noexcept;

 private:
  PoolState& pool_;
  const Sleeper& sleeper_;
};

}  // namespace gpupool::internal
