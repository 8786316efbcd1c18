// SPDX-License-Identifier: Apache-2.0
// Sizes, as the searcher counts them.
#pragma once

#include <cstdint>

namespace hunt {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;
/// What a block is rounded up to, and a chunk.
inline constexpr uint64_t kUnit = 512;
inline constexpr uint64_t kGranule = 2 * kMiB;

constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace hunt
