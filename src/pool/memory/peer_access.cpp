// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/peer_access.hpp"

#include "pool/memory/exports.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/memory/protections.hpp"

namespace gpupool::internal {

/// Includes old mappings: work that was queued before a chunk moved may still use them.
Status Peers::set_access() {
  Status status = kSuccess;
  const auto set = [&](Address address, uint64_t size) {
    const Status done = pool_.device.set_access(address, size);
    if (status == kSuccess) status = done;
  };
  for (const Region& region : pool_.space.regions) {
    for_each_chunk(region, [&](const Chunk* chunk) {
      if (!chunk->unmapped) set(chunk->address, chunk->size);
    });
  }
  pool_.backing.for_each_old([&](const OldMapping& old) {
    if (!old.away) set(old.range->address, old.range->size);
  });
  for (const Status done : {protections_.set_again(), imports_.set_access()}) {
    if (status == kSuccess) status = done;
  }
  return status;
}

}  // namespace gpupool::internal
