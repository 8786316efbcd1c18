// SPDX-License-Identifier: Apache-2.0
// The tools that watch a program's accesses to host memory: AddressSanitizer and Valgrind's memcheck. They
// are told which bytes nobody may touch, so that they report an access to them as they report one to a freed
// malloc. Where neither is there, nothing is told.
#pragma once

#include <cstdint>

#include "device/device.hpp"

namespace gpupool::internal {

/// Finds the tools of this process when it is made.
class MemoryCheckers {
 public:
  MemoryCheckers() noexcept;

  /// Whether there is one to tell.
  bool any() const noexcept { return poison_ != nullptr || under_valgrind_; }

  /// Nobody may touch these bytes, or everybody may again.
  void close(Address address, uint64_t size) const noexcept;
  void open(Address address, uint64_t size) const noexcept;
  /// They hold values now, which the tool did not see being written.
  void written(Address address, uint64_t size) const noexcept;

  /// Open memory becomes a block, whose bytes nobody has written, and that block ends. Only Valgrind knows
  /// blocks, for the stacks in its messages and its search for leaks.
  void begin_block(Address address, uint64_t size) const noexcept;
  void end_block(Address address) const noexcept;

 private:
  using RegionFn = void(const volatile void* begin, size_t size);

  RegionFn* poison_ = nullptr;  // AddressSanitizer's; null without it
  RegionFn* unpoison_ = nullptr;
  bool under_valgrind_ = false;
};

}  // namespace gpupool::internal
