// SPDX-License-Identifier: Apache-2.0
// The free memory of a pool as its mallocs find it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupool::internal {

struct PoolState;

/// Free ranges that memory backs, without those that graphs keep. What threads' caches keep is part of them:
/// such a block serves a malloc of its size as it is, and any other once it has been merged with its
/// neighbours.
struct FreeRanges {
  uint64_t bytes = 0;
  uint64_t largest = 0;

  /// With the pool's lock. Looks at no more streams, and no more blocks in caches, than this.
  static FreeRanges of(PoolState& pool, size_t most_streams, size_t most_blocks) noexcept;
};

}  // namespace gpupool::internal
