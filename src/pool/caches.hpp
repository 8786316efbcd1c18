// SPDX-License-Identifier: Apache-2.0
// The caches of all threads that use a pool.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "pool/thread_cache.hpp"

namespace gpupool::internal {

/// Caches live as long as the pool. When a thread ends, its cache waits for the next new thread, with what is
/// in it, so that there are never more than threads at a time. Guarded by the pool's lock; each cache has a
/// lock of its own, which comes after that.
class Caches {
 public:
  Caches() = default;
  Caches(const Caches&) = delete;
  Caches& operator=(const Caches&) = delete;
  ~Caches();

  /// A cache for a thread that has none. Throws std::bad_alloc.
  ThreadCache* attach();
  /// The thread has ended, or forgets the cache.
  void detach(ThreadCache* cache) noexcept;

  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& cache : caches_) visit(*cache);
  }
  /// With each cache's own lock, one after the other.
  template <typename Visit>
  void for_each_locked(Visit visit) const {
    for (const auto& cache : caches_) {
      const std::lock_guard lock(cache->lock);
      visit(*cache);
    }
  }

  /// While it lives, every cache is locked, so that no block changes hands and all counters are of one
  /// moment.
  class AllLocked {
   public:
    explicit AllLocked(const Caches& caches) noexcept : caches_(caches) { caches_.lock_all(); }
    AllLocked(const AllLocked&) = delete;
    AllLocked& operator=(const AllLocked&) = delete;
    ~AllLocked() { caches_.unlock_all(); }

   private:
    const Caches& caches_;
  };

  // For fork, which has no scope to hold an AllLocked.
  void lock_all() const noexcept;
  void unlock_all() const noexcept;

  /// What the cache keeps of a stream and group, and all that it keeps, as one list through Range::link.
  static Range* drain(ThreadCache& cache, Stream stream, Group group) noexcept;
  static Range* drain(ThreadCache& cache) noexcept;
  /// What it keeps and has taken nothing from since this was last called. Lanes that are empty by then serve
  /// other streams and threads.
  Range* drain_resting(ThreadCache& cache) noexcept;

  /// Makes sure that the cache keeps what is freed on a stream, if there is memory for that. Where that takes
  /// a lane from another stream, what was in it is returned, as a list.
  Range* open_lane(ThreadCache& cache, Stream stream) noexcept;
  /// All that the cache keeps of a stream, after which it has no lane for it.
  Range* close_lane(ThreadCache& cache, Stream stream) noexcept;

  uint64_t bytes() const noexcept {
    return caches_.size() * sizeof(ThreadCache) + lane_count_ * sizeof(Lane);
  }
  /// With all caches locked.
  bool is_valid() const noexcept;

 private:
  void put_spare(Lane& lane) noexcept;
  Lane* get_spare() noexcept;

  std::vector<std::unique_ptr<ThreadCache>> caches_;
  ThreadCache* unused_ = nullptr;  // through next_unused
  Lane* spare_ = nullptr;          // through next_spare
  size_t lane_count_ = 0;
};

}  // namespace gpupool::internal
