// SPDX-License-Identifier: Apache-2.0
// Zeroed memory for large tables of which little is ever used.
#pragma once

#include <cstddef>

namespace gpupool::internal {

/// Null: there is none. The system's pages come when they are first touched, where calloc would clear all of
/// a table by itself: the C library maps large blocks only until the program has freed one that was larger.
void* get_zeros(size_t bytes) noexcept;
void release_zeros(void* memory, size_t bytes) noexcept;

}  // namespace gpupool::internal
