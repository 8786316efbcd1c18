// SPDX-License-Identifier: Apache-2.0
// Mallocs that no thread's cache can serve: from the stream's heap, from the pool's source, and, if both are
// short, with what Shortage tries. The last resort is an error that says what was short.
#pragma once

#include <cstdint>
#include <string>

#include "base/no_copy.hpp"
#include "base/status.hpp"
#include "core/range.hpp"
#include "pool/memory/gate.hpp"
#include "pool/memory/request.hpp"
#include "pool/request/watched_call.hpp"

namespace gpupool::internal {

class RunStealer;
class Shortage;
class Source;
class Watcher;
class Reclaimer;
struct PoolState;
struct ThreadCache;

/// Guarded by the pool's lock, which it gives up for whatever may take long.
class SlowMalloc : NoCopy {
 public:
  SlowMalloc(PoolState& pool, Source& source, RunStealer& stealer, Reclaimer& reclaimer, Shortage& shortage,
             Watcher& watcher) noexcept
      : pool_(pool),
        source_(source),
        run_stealer_(stealer),
        reclaimer_(reclaimer),
        shortage_(shortage),
        watcher_(watcher) {}

  /// From now on threads' caches keep nothing that is freed.
  void keep_no_lanes() noexcept { keeps_lanes_ = false; }

  /// With no lock held. What was seen has to be told. `behind`: the block begins where this one ends, or for
  /// 0 where others have room behind it; null: anywhere. Throws std::bad_alloc.
  Status malloc(uint64_t size, uint64_t alignment, StreamUser user, Address& address, WatchedCall& seen,
                const Address* behind = nullptr);

  /// With the pool's lock: makes a block that was just taken from a heap the cache's own, and opens a lane
  /// for its stream.
  void assign_block(Range* block, ThreadCache& cache, uint64_t requested, WatchedCall& seen) noexcept;

 private:
  Status find_place(PoolLock& lock, Address behind, Request& request);
  Status provide(PoolLock& lock, Gate::WaitingMalloc& waiting, const Request& request, Range*& block);
  Status find_or_grow(PoolLock& lock, Gate::WaitingMalloc& waiting, const Request& request, Range*& block);
  Range* allocate_from_heap(PoolLock& lock, const Request& request);
  Range* take(const Request& request, bool last);
  Status grow(PoolLock& lock, const Request& request, bool last, Range*& block);
  void release_surplus(PoolLock& lock);
  void lend(Range& block, StreamState& borrower) noexcept;
  std::string what_is_short(Status status, uint64_t bytes) const;
  Status explain(Status status, uint64_t bytes);

  PoolState& pool_;
  Source& source_;
  RunStealer& run_stealer_;
  Reclaimer& reclaimer_;
  Shortage& shortage_;
  Watcher& watcher_;
  bool keeps_lanes_ = true;  // threads' caches keep what is freed
};

}  // namespace gpupool::internal
