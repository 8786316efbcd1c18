// SPDX-License-Identifier: Apache-2.0
// What a pool that is short asks of the other processes of its group. With the pool's lock, which these give
// up.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.hpp"
#include "share/member.hpp"

namespace gpupool::internal {

class PoolLock;
struct PoolState;

/// Waits until the group and the device have `bytes` for this pool, for as long as it waits by its own terms.
/// False if they do not, or if it shares with nobody. As long as `turn` lives, the group keeps them for this
/// process.
bool ask_group(PoolLock& lock, PoolState& pool, uint64_t bytes, std::optional<share::Turn>& turn);
/// Asks now, ahead of need.
Status request_from_group(PoolLock& lock, PoolState& pool, uint64_t bytes, uint64_t wait_ns);

}  // namespace gpupool::internal
