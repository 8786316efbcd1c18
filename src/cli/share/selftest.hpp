// SPDX-License-Identifier: Apache-2.0
// Tries out whether processes can share a device here.
#pragma once

#include "cli/share/options.hpp"

namespace gpupool::cli {

/// Starts processes of this program in a group of its own, has them hoard, ask, be stopped and killed, and
/// prints a line for each thing that must hold. Returns the exit status: 1 if one does not.
int run_share_selftest(const ShareOptions& options);

}  // namespace gpupool::cli
