// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/protections.hpp"

#include <cinttypes>
#include <mutex>
#include <utility>

#include "pool/memory/blocks.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/memory/source.hpp"

namespace gpupool::internal {
namespace {

/// Whether a block shares none of its chunks with another block.
bool has_chunks_alone(const Range& block) {
  if (block.region->is_segment) return false;
  bool alone = true;
  for_chunks(*block.region, block.address, block.end(), [&](const Chunk* chunk) {
    const bool inside = chunk->address >= block.address && chunk->end() <= block.end();
    alone = alone && !chunk->asleep && chunk->old_mappings == 0 && (inside || block.region->is_fence);
  });
  return alone;
}

/// The granules that are the block's own.
std::pair<Address, uint64_t> mapped_around(const Range& block) {
  const Address begin = align_down(block.address, kGranule);
  return {begin, align_up(block.end(), kGranule) - begin};
}

}  // namespace

Status Protections::set(Source& source, Address address, Permission access) {
  Range* block = pool_.space.map.find(address);
  ThreadCache* owner = block != nullptr ? owner_of(*block) : nullptr;
  if (owner == nullptr || block->address != address || !block->is(State::live))
    return not_a_block(pool_.space, address);
  if (!pool_.options.vmm) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "only a pool in vmm mode can protect blocks");
  }
  source.settle();  // old mappings of its chunks would let writes through
  if (pool_.gate.is_alone(address) || !has_chunks_alone(*block)) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED,
                "the block at 0x%" PRIx64 " of %" PRIu64
                " bytes shares a chunk: allocate whole multiples of 2 MiB, aligned to 2 MiB, in a pool whose "
                "max_chunk_bytes is 2 MiB",
                address, block->size);
  }
  const auto known = protected_.find(address);
  if (access == Permission::write) return known == protected_.end() ? kSuccess : undo(*block);
  // The record comes first: without one, the protection would never be undone.
  const auto [entry, is_new] = protected_.try_emplace(address, access);
  const auto [begin, size] = mapped_around(*block);
  if (const Status status = pool_.device.protect(begin, size, access); status != kSuccess) {
    if (is_new) protected_.erase(entry);
    return status;
  }
  entry->second = access;
  const std::lock_guard owner_lock(owner->lock);
  block->add_marks(kDebugged);
  return kSuccess;
}

Status Protections::undo(const Range& block) {
  const auto known = protected_.find(block.address);
  if (known == protected_.end()) return kSuccess;
  const auto [begin, size] = mapped_around(block);
  const Status status = pool_.device.protect(begin, size, Permission::write);
  if (status == kSuccess) protected_.erase(known);
  return status;
}

Status Protections::set_again() {
  Status status = kSuccess;
  for (const auto& [address, access] : protected_) {
    const auto [begin, size] = mapped_around(*pool_.space.map.find(address));
    const Status done = pool_.device.protect(begin, size, access);
    if (status == kSuccess) status = done;
  }
  return status;
}

}  // namespace gpupool::internal
