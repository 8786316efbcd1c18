// SPDX-License-Identifier: Apache-2.0
// Reserves addresses for heaps from the driver. Nothing backs them yet.
#pragma once

#include <array>

#include "core/heap.hpp"
#include "pool/rules/metered_device.hpp"

namespace gpupool::internal {

using Windows = std::array<Window, Heap::kMaxWindows>;

/// Guarded by the pool's lock, except the atomic count of what all pools of the process have reserved.
class Addresses {
 public:
  /// `are_gone` tells those who explain a shortage: whether the last search failed because the driver has no
  /// addresses left.
  Addresses(MeteredDevice& device, bool& are_gone) noexcept : device_(device), are_gone_(are_gone) {}

  /// Finds the places in a heap that could hold a request: at least one. Reserves more addresses if there are
  /// none. OUT_OF_MEMORY if the driver has none. Throws std::bad_alloc.
  Status find_places(Heap& heap, uint64_t bytes, uint64_t alignment, Windows& windows, size_t& count);

  /// Where the first of many blocks can begin that are to lie behind each other. Throws std::bad_alloc.
  Status find_room(Heap& heap, uint64_t bytes, Address& address);

  /// Reserves a region of at least `bytes` for a heap: as large as suits the heap, or less if the driver has
  /// too little left. Throws std::bad_alloc.
  Status add_region(Heap& heap, uint64_t bytes);

  /// Releases a region without mappings and sets its size to 0. If the driver refuses, the region stays.
  void release(Region& region) noexcept;

 private:
  uint64_t region_size(SizeGroup group) const noexcept;

  MeteredDevice& device_;
  bool& are_gone_;
};

}  // namespace gpupool::internal
