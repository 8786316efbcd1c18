// SPDX-License-Identifier: Apache-2.0
// One piece of work, as a stream executes it and as a capture records it.
#pragma once

#include <cstdint>

#include "device/device.hpp"

namespace gpupool::internal {

struct SimWork {
  enum class Kind : uint8_t {
    kernel,  // reads and writes the destination, and changes no byte
    fill,
    copy,
    transfer,  // for the pool itself: over the bus, between two addresses that this device knows
    look,      // for the pool itself: whether the source still holds the word
  };

  Kind kind = Kind::kernel;
  uint32_t word = 0;       // of a fill or a look
  bool to_host = false;    // the destination of a copy is host memory
  bool from_host = false;  // its source is
  bool is_own = false;     // the pool's, which may touch what is closed to others
  Address destination = 0;
  Address source = 0;
  uint64_t size = 0;
  uint64_t nanoseconds = 0;
  uint64_t block = 0;  // of a look
  DamageReport* report = nullptr;
};

}  // namespace gpupool::internal
