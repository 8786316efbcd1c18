// SPDX-License-Identifier: Apache-2.0
// The caches of all threads that use a pool.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/no_copy.hpp"
#include "pool/cache/thread_cache.hpp"

namespace gpupool::internal {

/// Caches live as long as the pool. When a thread ends, its cache keeps its blocks and waits for the next new
/// thread, so there are never more caches than threads at a time. Guarded by the pool's lock. Each cache has
/// a lock of its own, taken after the pool's.
class Caches : NoCopy {
 public:
  Caches() = default;
  ~Caches();

  /// A cache for a thread that has none. Throws std::bad_alloc.
  ThreadCache* open();
  /// Makes a cache available to other threads: its own has ended, or forgets it.
  void close(ThreadCache* cache) noexcept;

  size_t count() const noexcept { return caches_.size(); }
  ThreadCache& at(size_t index) const noexcept { return *caches_[index]; }

  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& cache : caches_) visit(*cache);
  }
  /// Calls visit(cache) with each cache's own lock, one after another.
  template <typename Visit>
  void for_each_locked(Visit visit) const {
    for (const auto& cache : caches_) {
      const std::lock_guard lock(cache->lock);
      visit(*cache);
    }
  }

  /// Locks every cache while it lives, so that no block changes hands and all counters are of one moment.
  class AllLocked : NoCopy {
   public:
    explicit AllLocked(const Caches& caches) noexcept : caches_(caches) { caches_.lock_all(); }
    ~AllLocked() { caches_.unlock_all(); }

   private:
    const Caches& caches_;
  };

  /// Brings peaks up to date with what all threads have counted. Takes every cache's lock.
  void fold(Counters& counters) const noexcept;
  /// Of all caches: live blocks, and freed ones that wait for streams.
  Amounts live() const noexcept;
  Amounts pending() const noexcept;

  // For fork, which has no scope to hold an AllLocked.
  void lock_all() const noexcept;
  void unlock_all() const noexcept;

  /// Takes the smallest small block of a stream that is larger than `bytes`; null if there is none.
  static Range* pop_larger(ThreadCache& cache, Stream stream, uint64_t bytes) noexcept;

  // Draining a cache. Each of these returns up to `most` blocks, as a list through Range::link, and counts
  // `most` down by them. A thread that drains many blocks gives way to others between two calls.

  /// Blocks to drain at a time (docs/inside/locks.md says how long that takes).
  static constexpr size_t kAtATime = 64;

  /// Drains what the cache keeps of one stream and size group, or of all.
  static Range* drain(ThreadCache& cache, Stream stream, SizeGroup group, size_t& most) noexcept;
  static Range* drain(ThreadCache& cache, size_t& most) noexcept;
  /// Drains the bins that no malloc has touched since rest().
  static Range* drain_resting(ThreadCache& cache, size_t& most) noexcept;
  /// Marks all bins untouched. Idle lanes leave the cache, to serve other streams and threads.
  void rest(ThreadCache& cache) noexcept;

  /// Opens a lane for a stream that has none, if there is memory for one, so that the cache keeps what is
  /// freed on it. If another stream must lose its lane, returns up to kAtATime blocks of that lane as a list;
  /// if there are more, the lane stays, and a later call goes on.
  Range* open_lane(ThreadCache& cache, Stream stream) noexcept;
  /// Removes a stream's lane and returns all blocks in it, as a list.
  Range* close_lane(ThreadCache& cache, Stream stream) noexcept;

  uint64_t bytes() const noexcept {
    return caches_.size() * sizeof(ThreadCache) + lane_count_ * sizeof(Lane);
  }
  /// Call it with all caches locked.
  bool is_valid() const noexcept;

 private:
  void push_spare(Lane& lane) noexcept;
  Lane* pop_spare() noexcept;

  std::vector<std::unique_ptr<ThreadCache>> caches_;
  ThreadCache* unused_ = nullptr;  // through next_unused
  Lane* spare_ = nullptr;          // through next_spare
  size_t lane_count_ = 0;
};

}  // namespace gpupool::internal
