// SPDX-License-Identifier: Apache-2.0
// The pool's figures, as gpupool_stats gives them.
#pragma once

#include <cstdint>

#include "gpupool/gpupool.h"

namespace gpupool::internal {

class Backing;
struct Rooms;

/// Guarded by the pool's lock. Takes the caches' locks.
class Statistics {
 public:
  Statistics(const Rooms& rooms, const Backing& backing) noexcept : rooms_(rooms), backing_(backing) {}

  void read(gpupool_stats_t& stats) noexcept;
  void reset_peaks() noexcept;

  /// What trimming can release: chunks that no block touches, except free blocks in threads' caches. Looks at
  /// a bounded number of those, and leaves out the chunks of the others.
  uint64_t releasable() const noexcept;

 private:
  template <typename Visit>
  void visit_cached(Visit visit) const;

  const Rooms& rooms_;
  const Backing& backing_;
};

}  // namespace gpupool::internal
