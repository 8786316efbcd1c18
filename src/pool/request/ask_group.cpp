// SPDX-License-Identifier: Apache-2.0
#include "pool/request/ask_group.hpp"

#include <algorithm>
#include <cinttypes>

#include "pool/memory/pool_state.hpp"

namespace gpupool::internal {
namespace {

/// False, too, if the pool's own limit has no room for them.
bool ask(PoolLock& lock, PoolState& pool, uint64_t bytes, uint64_t wait_ns,
         std::optional<share::Turn>& turn) {
  const GroupLimit* group = pool.group.limit;
  if (group == nullptr || bytes > pool.ledger.budget().own_room()) return false;
  const KeepError keep_error;
  return pool.leave_for(lock, [&] {
    turn.emplace(group->member().turns(), bytes, wait_ns, pool.id);
    if (turn->wait()) return true;
    turn.reset();
    return false;
  });
}

}  // namespace

bool ask_group(PoolLock& lock, PoolState& pool, uint64_t bytes, std::optional<share::Turn>& turn) {
  const GroupLimit* group = pool.group.limit;
  return group != nullptr && ask(lock, pool, bytes, group->wait_ns(), turn);
}

Status request_from_group(PoolLock& lock, PoolState& pool, uint64_t bytes, uint64_t wait_ns) {
  const GroupLimit* group = pool.group.limit;
  if (group == nullptr) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE,
                "the pool shares with nobody: it was created without share, or alone");
  }
  if (bytes > pool.ledger.budget().own_room()) {
    return fail(GPUPOOL_ERROR_OVER_LIMIT, "the pool's own limit has no room for %" PRIu64 " bytes more",
                bytes);
  }
  std::optional<share::Turn> turn;
  if (ask(lock, pool, align_up(bytes, kGranule), wait_ns, turn)) return kSuccess;
  return fail(GPUPOOL_ERROR_OVER_LIMIT,
              "the group has no %" PRIu64 " bytes for this process: its members have %" PRIu64 " of %" PRIu64,
              bytes, group->limit() - std::min(group->limit(), group->room()), group->limit());
}

}  // namespace gpupool::internal
