// SPDX-License-Identifier: Apache-2.0
// gpupool sleep and wake with --whole.
#pragma once

#include <string>

#include "cli/processes/control.hpp"

namespace gpupool::cli {

struct WholeOptions {
  std::string who;       // a number or a name; "": see gpu
  std::string gpu;       // sleep: all on it
  ControlRequest pools;  // for the process's own library: sleep or wake
  double limit = 0;      // seconds for each step
  bool json = false;
};

/// The exit status: 1 if one of several could not be put to sleep, in words that were said.
int run_whole(const WholeOptions& options);

}  // namespace gpupool::cli
