// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <new>
#include <utility>

#include "pool/pool.hpp"

namespace gpupool::internal {

/// While it lives, a free of the block waits for its end, so that the plan's chunks stay.
class Sleeper::Transit {
 public:
  Transit(Sleeper& sleeper, Address block) noexcept : sleeper_(sleeper) { sleeper_.transit_ = block; }
  Transit(const Transit&) = delete;
  Transit& operator=(const Transit&) = delete;
  ~Transit() {
    sleeper_.transit_ = 0;
    if (Range* freed = std::exchange(sleeper_.freed_, nullptr)) sleeper_.pool_.way_back_.free_to_heap(*freed);
  }

 private:
  Sleeper& sleeper_;
};

/// A lack of memory, too, is a status, so that what was begun is undone.
template <typename Function>
Status Sleeper::attempt(Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "the host has no memory for the pool's records");
  }
}

}  // namespace gpupool::internal
