// SPDX-License-Identifier: Apache-2.0
#include "pool/peers.hpp"

#include <memory>
#include <vector>

#include "pool/pool.hpp"
#include "pool/registry.hpp"

namespace gpupool::internal {
namespace {

/// Takes one pool after another, since pools' locks have no order among them. What a pool maps meanwhile has
/// the new access from the start.
Status set_access_in_family(Pool& self, const std::vector<std::shared_ptr<Pool>>& pools) {
  Status status = kSuccess;
  for (const auto& pool : pools) {
    if (pool->device().shared() != self.device().shared() || !pool->is_usable()) continue;
    const Status done = pool->set_access();
    if (status == kSuccess) status = done;
  }
  return status;
}

}  // namespace

/// What is mapped from now on gets the peer's access as it is mapped. This gives it to what is mapped
/// already.
Status enable_peer(Pool& pool, int32_t peer) {
  const auto pools = Registry::instance().all();
  const bool is_vmm = pool.options().vmm;
  if (const Status status = pool.device().add_peer(peer, !is_vmm); status != kSuccess || !is_vmm)
    return status;
  const Status status = set_access_in_family(pool, pools);
  if (status == kSuccess) return kSuccess;
  const ErrorRecord cause = last_error();
  pool.device().remove_peer(peer);
  (void)set_access_in_family(pool, pools);
  last_error() = cause;
  return status;
}

/// Includes old mappings: work that was queued before a chunk moved may still use them.
Status Peers::set_access() {
  Status status = kSuccess;
  const auto set = [&](Address address, uint64_t size) {
    const Status done = rooms_.device.set_access(address, size);
    if (status == kSuccess) status = done;
  };
  for (const Region& region : rooms_.space.regions) {
    for_each_chunk(region, [&](const Chunk* chunk) {
      if (!chunk->unmapped) set(chunk->address, chunk->size);
    });
  }
  backing_.for_each_old([&](const OldMapping& old) {
    if (!old.away) set(old.range->address, old.range->size);
  });
  for (const Status done : {protections_.set_again(), imports_.set_access()}) {
    if (status == kSuccess) status = done;
  }
  return status;
}

}  // namespace gpupool::internal
