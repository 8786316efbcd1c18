// SPDX-License-Identifier: Apache-2.0
// What the process switches on to watch all its pools.
#pragma once

#include <cstdint>

#include "base/status.hpp"

namespace gpupool::internal {

inline constexpr uint32_t kAnyRecording = 0;  // a recording's number is odd

/// Records all pools to a file, or a ring of files, as read_plan() has it: what is there now, and all that
/// happens from now on. Throws std::bad_alloc.
Status start_recording(const char* text, uint32_t flags, uint32_t& number);
/// Stops the recording of this number, or whichever is under way.
Status stop_recording(uint32_t number = kAnyRecording) noexcept;

/// Ends a recording when the process exits; otherwise it would look like that of a killed one.
void end_recording_at_exit() noexcept;

/// Sets the least mean distance of samples in bytes; 0: no samples from now on. Throws std::bad_alloc.
void sample_every(uint64_t bytes);

}  // namespace gpupool::internal
