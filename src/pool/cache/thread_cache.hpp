// SPDX-License-Identifier: Apache-2.0
// What one thread keeps of one pool: free blocks by stream and size, and its share of the counters.
#pragma once

#include "base/spin_lock.hpp"
#include "core/counters.hpp"
#include "pool/cache/lanes.hpp"
#include "watch/sampler.hpp"

namespace gpupool::internal {

/// A thread takes the lock of its own cache once per call. Nobody contends for it but other threads that free
/// its blocks, and the pool that drains it. Lock order: the pool's lock, then this one. Caches live as long
/// as the pool; when a thread ends, its cache waits for the next new thread.
struct ThreadCache : BlockOwner {
  SpinLock lock;
  ThreadCache* next_unused = nullptr;  // while no thread has it
  CounterShard counters;
  Lanes lanes;
  // Behind the rest, so that the lock and the live counts stay on one cache line.
  uint32_t watch_epoch = 0;  // the epoch (watcher.cpp) for which its counters were set
  Marks marks;               // of the samples among its blocks
};

/// The cache that a block, live or cached, is counted in.
inline ThreadCache* owner_of(const Range& block) noexcept {
  return static_cast<ThreadCache*>(block.owner());
}

}  // namespace gpupool::internal
