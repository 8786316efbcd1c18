// SPDX-License-Identifier: Apache-2.0
// Free ranges by size, for best fit.
#pragma once

#include <array>
#include <cstdint>

#include "core/bitmap.hpp"
#include "core/range.hpp"

namespace gpupool::internal {

/// Bins of 1/32 of a power of two with a bitmap over them; within a bin, ranges are sorted by size and then
/// address, but what is inserted goes no deeper than kScan. Best fit is exact while bins are no longer than
/// that. In a longer bin, what fits may be behind kScan ranges that are too small: then the next bin in use
/// serves, however much larger its ranges are, so that a search takes a bounded number of steps. Uses both
/// links of the ranges it holds.
class FreeIndex {
 public:
  void insert(Range* block) noexcept;
  void remove(Range* block) noexcept;

  /// Changes a range's bounds. Moves it only if its place among the others changes.
  void resize(Range* block, Address address, uint64_t size) noexcept;

  /// The smallest range of at least `size`, the lowest address among equals, as far as bins are sorted. Null
  /// if there is none; without `exhaustive`, also if all that fit are deep in the size's own bin, so that a
  /// search takes a bounded number of steps.
  Range* find(uint64_t size, bool exhaustive = false) const noexcept;

  /// One of the largest ranges, within 1/32, and from there the next smaller ones (within a bin: next
  /// larger). Null at the end.
  Range* top_bin() const noexcept;
  Range* walk_down(const Range* block) const noexcept;

  bool empty() const noexcept { return count_ == 0; }
  size_t count() const noexcept { return count_; }
  uint64_t bytes() const noexcept { return bytes_; }

  /// Re-derives everything. For tests.
  bool is_valid() const noexcept;
  bool contains(const Range* block) const noexcept;

 private:
  static constexpr unsigned kSubBits = 5;
  static constexpr size_t kBins = 1280;
  static constexpr unsigned kScan = 8;
  static constexpr size_t kNone = Bitmap<kBins>::kNone;

  static size_t bin_of(uint64_t size) noexcept;
  Range* first_in(size_t bin) const noexcept { return occupied_.has(bin) ? heads_[bin] : nullptr; }

  // Of bins that are not in use unspecified, so that an index costs the host the pages that it uses.
  std::array<Range*, kBins> heads_;
  Bitmap<kBins> occupied_;
  size_t count_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace gpupool::internal
