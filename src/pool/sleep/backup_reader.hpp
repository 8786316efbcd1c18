// SPDX-License-Identifier: Apache-2.0
// What was saved of blocks that sleep, for whoever wants to see it before they wake.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "pool/rules/pool_lock.hpp"
#include "pool/sleep/sleep_context.hpp"

namespace gpupool::internal {

// With the pool's lock. What the functions of gpupool.h with these names do.

Status find_backup(SleepContext& in, Address address, const void*& data, uint64_t& bytes);
/// Gives way to other threads in between.
Status read_backup(SleepContext& in, PoolLock& lock, Address address, void* data, uint64_t bytes);

}  // namespace gpupool::internal
