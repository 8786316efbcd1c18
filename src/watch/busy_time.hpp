// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpupool::internal {

/// How long the process was busy: its processor time, but no more than has passed by the clock, however many
/// threads run. Some milliseconds late: the system is asked once in a tick of its coarse clock, and the
/// others pay for a look at that. Never goes back, not even in a child of fork.
uint64_t busy_time_ns() noexcept;

}  // namespace gpupool::internal
