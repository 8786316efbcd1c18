// SPDX-License-Identifier: Apache-2.0
// What a pool is created with.
#pragma once

#include <cstdint>

#include "core/budget.hpp"
#include "device/device.hpp"
#include "pool/rules/debug_modes.hpp"

namespace gpupool::internal {

struct PoolOptions {
  bool vmm = true;
  bool capture_aware = false;
  Kind kind = Kind::device;
  double slack = 0;  // -1: always tight
  uint64_t max_chunk = 0;
  uint64_t limit = Budget::kNone;
  uint64_t idle_ns = 0;      // after so long without a malloc, cached memory is released; 0: never
  Ceiling ceiling;           // of the environment
  bool is_upstream = false;  // the user's callbacks supply the memory
  bool is_child = false;     // moves nothing, and releases memory only when asked to
  DebugModes debug;          // all off in a child, whose memory is a graph's
};

}  // namespace gpupool::internal
