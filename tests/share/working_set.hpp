// SPDX-License-Identifier: Apache-2.0
// What a program has live, which grows and shrinks.
#pragma once

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "gpupool/gpupool.h"

namespace gpupool::internal::share {

/// Blocks of random sizes, some of which stay from phase to phase.
class WorkingSet {
 public:
  /// Blocks have up to `largest` MiB.
  WorkingSet(gpupool_t* pool, uint64_t seed, uint64_t largest)
      : pool_(pool), random_(seed), largest_(largest) {}

  /// Frees blocks at random, or takes some, until exactly `bytes` are live. False: out of memory.
  bool become(uint64_t bytes) {
    while (live_ > bytes) {
      std::swap(blocks_[random_() % blocks_.size()], blocks_.back());
      gpupool_free(pool_, blocks_.back().first, 0);
      live_ -= blocks_.back().second;
      blocks_.pop_back();
    }
    while (live_ < bytes) {
      const uint64_t size = std::min(bytes - live_, (1 + random_() % largest_) * kMiB);
      gpupool_ptr_t block = 0;
      if (gpupool_malloc(pool_, size, 0, &block) != GPUPOOL_SUCCESS) return false;
      blocks_.emplace_back(block, size);
      live_ += size;
    }
    return true;
  }

  /// Replaces so many blocks by others of the same size. False: out of memory.
  bool work(int times) {
    for (; times != 0 && !blocks_.empty(); --times) {
      auto& [block, size] = blocks_[random_() % blocks_.size()];
      gpupool_free(pool_, block, 0);
      if (gpupool_malloc(pool_, size, 0, &block) != GPUPOOL_SUCCESS) return false;
    }
    return true;
  }

  uint64_t live() const { return live_; }

 private:
  gpupool_t* pool_;
  std::mt19937_64 random_;
  uint64_t largest_;
  std::vector<std::pair<gpupool_ptr_t, uint64_t>> blocks_;
  uint64_t live_ = 0;
};

}  // namespace gpupool::internal::share
