// SPDX-License-Identifier: Apache-2.0
// The free chunks that a growth may take, counted by size, and which of them it should take.
#pragma once

#include <array>
#include <cstdint>

#include "core/chunk.hpp"
#include "core/chunk_sizer.hpp"

namespace gpupool::internal {

/// Sizes are powers of two, so that a count by class says all. The same choice is made when places are
/// compared and when one is filled.
class Supply {
 public:
  static constexpr size_t kNone = ChunkLists::kClasses;

  void add_class(size_t size_class, size_t count) noexcept {
    counts_[size_class] += static_cast<int64_t>(count);
  }
  void remove(uint64_t size) noexcept { --counts_[ChunkLists::class_of(size)]; }
  void remove_class(size_t size_class) noexcept { --counts_[size_class]; }
  /// There was none after all.
  void clear_class(size_t size_class) noexcept { counts_[size_class] = 0; }

  static uint64_t size_of(size_t size_class) noexcept { return kGranule << size_class; }

  /// The class to take towards `need` bytes where `room` can be mapped: one chunk that covers the rest with
  /// little to spare, else the largest that is not too large, else the smallest there is room for. kNone if
  /// nothing fits.
  size_t pick(uint64_t need, uint64_t room) const noexcept {
    const size_t exact = ChunkLists::class_of(need);
    const size_t cover = size_of(exact) < need ? exact + 1 : exact;
    if (has(cover, room)) return cover;
    for (size_t at = cover; at-- > 0;) {
      if (counts_[at] != 0) return at;
    }
    for (size_t at = cover + 1; at < ChunkLists::kClasses; ++at) {
      if (has(at, room)) return at;
    }
    return kNone;
  }

 private:
  bool has(size_t size_class, uint64_t room) const noexcept {
    return size_class < ChunkLists::kClasses && counts_[size_class] != 0 && size_of(size_class) <= room;
  }

  std::array<int64_t, ChunkLists::kClasses> counts_{};
};

/// What backing a place would take. Less new memory is better, then fewer chunks.
struct Cost {
  uint64_t created = 0;
  uint64_t chunks = 0;

  friend bool operator<(const Cost& a, const Cost& b) noexcept {
    return a.created != b.created ? a.created < b.created : a.chunks < b.chunks;
  }
};

}  // namespace gpupool::internal
