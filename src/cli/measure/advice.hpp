// SPDX-License-Identifier: Apache-2.0
// What to change in a recorded program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/base/output.hpp"
#include "cli/recording/recording.hpp"

namespace gpupool::cli {

struct Advice {
  std::string kind;                // "limit", "empty_cache", "pinned", "leak", "stream", "batch"
  std::string text;                // what to change, and what a replay says about it
  uint64_t saved_bytes = 0;        // of memory, as the replay found
  uint64_t saved_nanoseconds = 0;  // of the driver's time
};

/// All advice that would save something; none if there is nothing to gain.
std::vector<Advice> advise(const Recording& recording, uint64_t pool, Progress& progress);

}  // namespace gpupool::cli
