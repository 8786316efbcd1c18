// SPDX-License-Identifier: Apache-2.0
// How much an array needs: its elements, without what the driver adds for tiles.
#pragma once

#include <cstdint>

#include "frameworks/audit/types.hpp"

namespace gpupool::audit {

/// As bytes of an allocation that nobody has.
inline constexpr uint64_t kTooMuch = UINT64_MAX;

inline uint64_t product(uint64_t one, uint64_t other) noexcept {
  uint64_t bytes = 0;
  return __builtin_mul_overflow(one, other, &bytes) ? kTooMuch : bytes;
}

/// Nothing of one to which memory is mapped later.
uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR& array) noexcept;
/// Of a mipmap.
uint64_t bytes_of(CUDA_ARRAY3D_DESCRIPTOR array, unsigned levels) noexcept;

}  // namespace gpupool::audit
