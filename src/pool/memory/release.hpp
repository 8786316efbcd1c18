// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/status.hpp"

namespace gpupool::internal {

class PoolLock;
struct PoolState;

// With the pool's lock. A pool that is not awake releases nothing.

/// What trimming can release: chunks that no block touches, except free blocks in threads' caches. Looks at a
/// bounded number of those, and leaves out the chunks of the others. Takes the caches' locks.
uint64_t releasable(const PoolState& pool) noexcept;

/// Releases chunks that no block touches and streams have passed, until at most `target` is reserved; a
/// child's only if `is_asked_for`. Sets `blocked` if more can go once streams have passed. With a null lock,
/// it does not give way to other threads.
Status release_chunks(PoolState& pool, PoolLock* lock, uint64_t target, bool is_asked_for, bool& blocked);
/// Removes old mappings that no queued work can need any more.
void unmap_passed(PoolState& pool) noexcept;

}  // namespace gpupool::internal
