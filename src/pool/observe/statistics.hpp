// SPDX-License-Identifier: Apache-2.0
// The pool's figures, as gpupool_stats gives them.
#pragma once

#include "core/counters.hpp"
#include "gpupool/gpupool.h"

namespace gpupool::internal {

class Sleeper;
struct PoolState;

/// Guarded by the pool's lock. Takes the caches' locks.
class Statistics {
 public:
  Statistics(PoolState& pool, const Sleeper& sleeper) noexcept : pool_(pool), sleeper_(sleeper) {}

  void read(gpupool_stats_t& stats) noexcept;
  /// Parts of blocks that the caller divides come (change is 1) or go (-1), as gpupool_count_parts has it.
  void count_parts(int32_t what, SizeGroup group, const Amounts& parts, int32_t change) noexcept;
  void reset_peaks() noexcept;

 private:
  PoolState& pool_;
  const Sleeper& sleeper_;
};

}  // namespace gpupool::internal
