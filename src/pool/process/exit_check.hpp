// SPDX-License-Identifier: Apache-2.0
// What debug modes have found in pools that are left, told to a program that ends.
#pragma once

namespace gpupool::internal {

/// When the process exits, looks once at all blocks of the pools that are left, and tells what is found.
/// Call it for each pool with debug modes, once its device is there: hooks run in reverse order, so the
/// driver is then still whole. The exit waits for the GPU, as a pool's end does.
void check_pools_at_exit() noexcept;

}  // namespace gpupool::internal
