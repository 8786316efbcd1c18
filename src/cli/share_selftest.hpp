// SPDX-License-Identifier: Apache-2.0
// Trying out whether processes share a device here: see run_share_selftest.
#pragma once

#include "cli/machine_commands.hpp"

namespace gpupool::cli {

/// Starts processes of this program in a group of its own, has them hoard, ask, be stopped and killed, and
/// prints a line for each thing that must hold. Returns the exit status: 1 where one does not.
int run_share_selftest(const ShareOptions& options);

/// What such a process does: it obeys its standard input until that ends. Returns the exit status.
int be_test_member(const ShareOptions& options);

}  // namespace gpupool::cli
