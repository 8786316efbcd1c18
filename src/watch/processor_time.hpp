// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpupool::internal {

/// Processor time that the process has used, in all its threads, some milliseconds late: the system is asked
/// once in a tick of its coarse clock, and the others pay for a look at that. Never goes back, not even in a
/// child of fork. Where the C library has the time of day instead, it is that.
uint64_t processor_time_ns() noexcept;

}  // namespace gpupool::internal
