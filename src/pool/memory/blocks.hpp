// SPDX-License-Identifier: Apache-2.0
// Finds the block that a caller means by an address.
#pragma once

#include "base/status.hpp"
#include "core/space.hpp"
#include "gpupool/gpupool.h"

namespace gpupool::internal {

struct PoolState;

// All of these need the pool's lock.

/// The live block at an address; null if there is none.
inline Range* find_live(const Space& space, Address address) noexcept {
  Range* block = space.map.find(address);
  return block != nullptr && block->address == address && block->is(State::live) ? block : nullptr;
}

/// UNKNOWN_POINTER, and what the address is instead of a live block's.
Status not_a_block(const Space& space, Address address);

/// What gpupool_block_info gives. Takes the lock of the block's cache.
Status block_info(PoolState& pool, Address address, gpupool_block_t& info);

}  // namespace gpupool::internal
