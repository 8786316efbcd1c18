// SPDX-License-Identifier: Apache-2.0
// The settings of frameworks that limit their memory: what `gpupool run --cap` makes of a number of bytes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gpupool::cli {

struct RunSettings {
  std::vector<std::pair<std::string, std::string>> variables;  // to be set
  std::vector<std::string> words;                              // the program and its arguments, some added
  std::vector<std::string> notes;                              // what was left as it is, or cannot be set
};

/// Adds the settings that keep each framework below `cap`. `total`: bytes of the largest GPU, of which
/// several take a share; 0: not known. A smaller limit in the environment or the arguments stays.
void add_limits(uint64_t cap, uint64_t total, RunSettings& settings);

}  // namespace gpupool::cli
