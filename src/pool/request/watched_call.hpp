// SPDX-License-Identifier: Apache-2.0
// Carries a malloc or free that has to be reported from under the locks to where stacks may be taken.
#pragma once

#include <cstdint>

#include "core/size.hpp"

namespace gpupool::internal {

struct WatchedCall {
  bool is_sampled = false;
  uint32_t recording = 0;  // that is told; 0: none
  uint64_t time = 0;       // in the recorder's ticks
  Address address = 0;
  uint64_t requested = 0;
  uint64_t bytes = 0;
  uint64_t mean = 0;    // mean distance of the sampler's marks
  uint8_t thinned = 0;  // how thin these marks were
  Stream stream = 0;
};

}  // namespace gpupool::internal
