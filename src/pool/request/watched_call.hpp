// SPDX-License-Identifier: Apache-2.0
// Carries a malloc or free that has to be reported from under the locks to where stacks may be taken.
#pragma once

#include <cstdint>

#include "core/size.hpp"
#include "watch/sampler.hpp"

namespace gpupool::internal {

struct WatchedCall {
  bool is_sampled = false;
  uint32_t recording = 0;  // that is told; 0: none
  uint64_t time = 0;       // in the recorder's ticks
  Address address = 0;
  uint64_t requested = 0;
  uint64_t bytes = 0;
  FirstMark mark;  // that makes it a sample
  Stream stream = 0;
};

}  // namespace gpupool::internal
