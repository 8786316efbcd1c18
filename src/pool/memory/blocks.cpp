// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/blocks.hpp"

#include <cinttypes>
#include <mutex>

#include "pool/memory/pool_state.hpp"

namespace gpupool::internal {

Status not_a_block(const Space& space, Address address) {
  const Range* near = space.map.find_at_or_before(address);
  if (near != nullptr && address < near->end()) {
    if (near->address == address) {
      return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "0x%" PRIx64 " has been freed already", address);
    }
    return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "0x%" PRIx64 " points into the block at 0x%" PRIx64, address,
                near->address);
  }
  return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "0x%" PRIx64 " is not a live block of this pool", address);
}

Status block_info(PoolState& pool, Address address, gpupool_block_t& info) {
  const Range* block = pool.space.map.find_at_or_before(address);
  if (block == nullptr || address >= block->end()) return not_a_block(pool.space, address);
  ThreadCache* owner = owner_of(*block);
  if (owner == nullptr) return not_a_block(pool.space, block->address);
  const std::lock_guard cache_lock(owner->lock);
  if (!block->is(State::live)) {
    return fail(GPUPOOL_ERROR_UNKNOWN_POINTER, "the block at 0x%" PRIx64 " has been freed", block->address);
  }
  info.address = block->address;
  info.requested_bytes = block->requested();
  info.allocated_bytes = block->size;
  info.stream = pool.streams.known_stream_of(*block);
  info.state = has_asleep(*block) ? GPUPOOL_BLOCK_ASLEEP : GPUPOOL_BLOCK_LIVE;
  info.device = pool.device.info().ordinal;
  return kSuccess;
}

}  // namespace gpupool::internal
