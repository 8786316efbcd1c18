// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpupool::internal {

/// gpupool_sleep_options_t, checked.
struct SleepOptions {
  bool drops = false;
  bool hold_mallocs = false;
  bool retain_backup = false;
  int fill = -1;  // a byte; -1: none
  uint64_t timeout_ns = 0;
  uint64_t target = 0;  // bytes that a sleep gives back; 0: all, and the pool sleeps
};

}  // namespace gpupool::internal
