// SPDX-License-Identifier: Apache-2.0
// Looks for idle pools among all of the process.
#pragma once

#include <cstdint>

namespace gpupool::internal {

/// A pool wants to be looked at, and gives memory back after so long without a malloc. With `thread`, starts
/// a thread of the library's own for that, unless it runs; if there can be none, the log says so.
void look_after_idle_pools(uint64_t idle_ns, bool thread) noexcept;

}  // namespace gpupool::internal
