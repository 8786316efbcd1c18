// SPDX-License-Identifier: Apache-2.0
// The contents of a block, through the host's pointer: every byte of megabytes, and often. So they are
// compiled with optimisation, whatever the test is compiled with.
#pragma once

#include <cstdint>

#include "gpupool/gpupool.h"

namespace test_support {

/// Writes a pattern of its own into every 8 bytes of a block.
void write_pattern(gpupool_ptr_t block, uint64_t size, uint64_t seed);
bool has_pattern(gpupool_ptr_t block, uint64_t size, uint64_t seed);

bool is_filled(gpupool_ptr_t block, uint64_t size, unsigned char value);

}  // namespace test_support
