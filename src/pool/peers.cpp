// SPDX-License-Identifier: Apache-2.0
// Other devices that may access the pool's memory. A pool and its children share a device, and so its peers.
#include "pool/pool.hpp"
#include "pool/registry.hpp"

namespace gpupool::internal {

/// What is mapped from now on gets the peer's access as it is mapped. This gives it to what is mapped
/// already.
Status Pool::enable_peer(int32_t peer) {
  const auto pools = Registry::instance().all();
  if (const Status status = device_.add_peer(peer, !options_.vmm); status != kSuccess || !options_.vmm) {
    return status;
  }
  const Status status = set_access_in_family(pools);
  if (status == kSuccess) {
    narrator_.say("device %d may access its memory", peer);
    return kSuccess;
  }
  const ErrorRecord cause = last_error();
  device_.remove_peer(peer);
  (void)set_access_in_family(pools);
  last_error() = cause;
  return status;
}

/// Takes one pool after another, since pools' locks have no order among them. What a pool maps meanwhile has
/// the new access from the start.
Status Pool::set_access_in_family(const std::vector<std::shared_ptr<Pool>>& pools) {
  Status status = kSuccess;
  for (const auto& pool : pools) {
    if (pool->device_.shared() != device_.shared() || !pool->handle_is_usable()) continue;
    const Lock lock = pool->enter();
    const Status done = pool->set_access_everywhere();
    if (status == kSuccess) status = done;
  }
  return status;
}

/// Includes old mappings: work that was queued before a chunk moved may still use them.
Status Pool::set_access_everywhere() {
  Status status = kSuccess;
  const auto set = [&](Address address, uint64_t size) {
    const Status done = device_.set_access(address, size);
    if (status == kSuccess) status = done;
  };
  for (const Region& region : space_.regions) {
    for_each_chunk(region, [&](const Chunk* chunk) {
      if (!chunk->unmapped) set(chunk->address, chunk->size);
    });
  }
  backing_.for_each_old([&](const OldMapping& old) {
    if (!old.away) set(old.range->address, old.range->size);
  });
  for (const Status done : {protect_again(), imports_.set_access()}) {
    if (status == kSuccess) status = done;
  }
  return status;
}

}  // namespace gpupool::internal
