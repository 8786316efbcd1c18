// SPDX-License-Identifier: Apache-2.0
// The check that all of a pool's records agree.
#pragma once

#include "base/status.hpp"

namespace gpupool::internal {

class Exports;
class Sleeper;
struct PoolState;

/// Lives for one call, under the pool's lock. Takes all caches' locks.
class Audit {
 public:
  Audit(PoolState& pool, const Exports& exports, const Sleeper& sleeper) noexcept
      : pool_(pool), exports_(exports), sleeper_(sleeper) {}

  /// INTERNAL, in words, if something does not agree. Throws std::bad_alloc.
  Status run() const;

 private:
  bool is_counted_by_size() const;

  PoolState& pool_;
  const Exports& exports_;
  const Sleeper& sleeper_;
};

}  // namespace gpupool::internal
