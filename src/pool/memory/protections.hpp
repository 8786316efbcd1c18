// SPDX-License-Identifier: Apache-2.0
// Blocks that the hardware lets nobody write, or touch.
#pragma once

#include <map>

#include "base/no_copy.hpp"
#include "base/status.hpp"
#include "core/range.hpp"
#include "device/device.hpp"

namespace gpupool::internal {

class Source;
struct PoolState;

/// Guarded by the pool's lock.
class Protections : NoCopy {
 public:
  explicit Protections(PoolState& pool) noexcept : pool_(pool) {}

  /// What gpupool_protect does. Throws std::bad_alloc.
  Status set(Source& source, Address address, Permission access);
  /// Call it before a block is freed.
  Status undo(const Range& block);
  /// Call it after something has given access to everything.
  Status set_again();
  /// The block, if it is protected, else 0; for 0, any that is.
  Address find(Address block) const noexcept {
    const auto found = block == 0 ? protected_.begin() : protected_.find(block);
    return found != protected_.end() ? found->first : 0;
  }

 private:
  PoolState& pool_;
  std::map<Address, Permission> protected_;
};

}  // namespace gpupool::internal
