// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupool::internal::os {

/// Gives the core to other threads for about so long.
void rest(uint32_t nanoseconds) noexcept;

/// Time that only goes forward, as cheap as the system has it: some milliseconds late.
uint64_t coarse_ns() noexcept;

/// Whether the system itself takes the time from the processor's counter: then it runs evenly, and is the
/// same on all cores. May read a file.
bool trusts_processor_clock() noexcept;

/// Writes the time of day in UTC, such as "2026-11-26T15:20:57.123456Z": 28 bytes with the zero.
void write_time(char* text, size_t room) noexcept;

}  // namespace gpupool::internal::os
