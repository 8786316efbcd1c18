// SPDX-License-Identifier: Apache-2.0
// The sizes that the policy is made of.
#pragma once

#include "base/bits.hpp"
#include "base/status.hpp"

namespace gpupool::internal {

using Address = gpupool_ptr_t;
using Stream = gpupool_stream_t;

/// Blocks are multiples of this, and aligned to it.
inline constexpr uint64_t kUnit = 512;

/// Chunks are multiples of this: the mapping granularity of every GPU with virtual memory management so far.
inline constexpr uint64_t kGranule = 2 * kMiB;

/// Blocks up to this size have heaps of their own, so that long-lived ones do not hold large chunks.
inline constexpr uint64_t kSmallMax = kMiB;

/// More than any device has; larger requests are refused before anything is added to them.
inline constexpr uint64_t kSizeMax = uint64_t{1} << 46;

inline constexpr uint64_t kAlignmentMax = 2 * kMiB;

enum class SizeGroup : uint8_t { small, large };
inline constexpr int kGroups = 2;

constexpr int index_of(SizeGroup group) noexcept {
  return static_cast<int>(group);
}

/// In [1, kSizeMax].
constexpr bool is_valid_size(uint64_t requested) noexcept {
  return requested - 1 < kSizeMax;
}

/// Of a valid size.
constexpr uint64_t allocated_size(uint64_t requested) noexcept {
  return align_up(requested, kUnit);
}

/// Arithmetic, because from a comparison compilers recompute each dependent index.
constexpr SizeGroup group_of(uint64_t allocated) noexcept {
  static_assert(static_cast<int>(SizeGroup::large) == 1);
  return static_cast<SizeGroup>((kSmallMax - allocated) >> 63);
}

}  // namespace gpupool::internal
