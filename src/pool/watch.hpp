// SPDX-License-Identifier: Apache-2.0
// What the process switches on to watch all its pools.
#pragma once

#include <cstdint>

#include "base/status.hpp"

namespace gpupool::internal {

/// Records all pools to a file: what is there now, and all that happens from now on. Throws std::bad_alloc.
Status start_recording(const char* path, uint32_t flags);
Status stop_recording();

/// Sets the least mean distance of samples in bytes; 0: no samples from now on. Throws std::bad_alloc.
void sample_every(uint64_t bytes);

}  // namespace gpupool::internal
