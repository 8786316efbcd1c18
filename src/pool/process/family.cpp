// SPDX-License-Identifier: Apache-2.0
#include "pool/process/family.hpp"

#include <memory>
#include <vector>

#include "base/defer.hpp"
#include "pool/pool.hpp"
#include "pool/process/registry.hpp"

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
  if (status == kSuccess) {
    pool.state().log.say("device %d may access its memory", peer);
    return kSuccess;
  }
  const KeepError keep_error;
  pool.device().remove_peer(peer);
  (void)set_access_in_family(pool, pools);
  return status;
}

/// An event that another thread is leaving now, in this pool or in one that shares the announcements, has
/// been left when this returns: that is done with the pool's lock. A pool that comes after the list knows.
Status announce_capture(Pool& pool, bool begins) {
  const std::shared_ptr<Announcements>& shared = pool.state().streams.announcements();
  Announcements& announcements = *shared;
  if (!begins) {
    return announcements.end()
               ? kSuccess
               : fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "begins is 0, and no capture is announced");
  }
  announcements.begin();
  Defer undo([&] { (void)announcements.end(); });
  for (const auto& other : Registry::instance().all()) {
    if (other->state().streams.announcements() != shared) continue;
    const PoolLock lock = other->state().look();
  }
  undo.cancel();
  return kSuccess;
}

}  // namespace gpupool::internal
