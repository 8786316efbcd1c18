// SPDX-License-Identifier: Apache-2.0
// Addresses for heaps, reserved from the driver and backed by nothing yet.
#pragma once

#include <array>

#include "core/heap.hpp"
#include "pool/metered_device.hpp"

namespace gpupool::internal {

using Windows = std::array<Window, Heap::kMaxWindows>;

/// Guarded by the pool's lock; how much all pools of the process have reserved is counted without.
class Addresses {
 public:
  explicit Addresses(MeteredDevice& device) noexcept : device_(device) {}

  /// The places in a heap that a request could go to, at least one; reserves more addresses if there are
  /// none. Throws std::bad_alloc.
  Status find_places(Heap& heap, uint64_t bytes, uint64_t alignment, Windows& windows, size_t& count);

  /// Reserves a region of at least `bytes` for a heap: as large as suits it, less where the driver has not so
  /// much left. Throws std::bad_alloc.
  Status add_region(Heap& heap, uint64_t bytes);

  /// Gives a region back that nothing is mapped in. Its size is 0 then; where the driver refuses, it stays.
  void release(Region& region) noexcept;

 private:
  uint64_t region_size(SizeGroup group) const noexcept;

  MeteredDevice& device_;
};

}  // namespace gpupool::internal
