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
  ThreadCache* open();
  /// The thread has ended, or forgets the cache.
  void close(ThreadCache* cache) noexcept;

  size_t count() const noexcept { return caches_.size(); }
  ThreadCache& at(size_t index) const noexcept { return *caches_[index]; }

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

  /// Brings peaks up to date with what all threads have counted. Takes every cache's lock.
  void fold(Counters& counters) const noexcept;

  // For fork, which has no scope to hold an AllLocked.
  void lock_all() const noexcept;
  void unlock_all() const noexcept;

  // Draining a cache. Each of these returns a list through Range::link, of up to `most` blocks, which it
  // counts down: a thread that drains many gives way to others in between.

  /// Blocks to drain at a time (docs/inside/locks.md says what that takes).
  static constexpr size_t kAtATime = 256;

  /// What the cache keeps of a stream and group, and of all.
  static Range* drain(ThreadCache& cache, Stream stream, SizeGroup group, size_t& most) noexcept;
  static Range* drain(ThreadCache& cache, size_t& most) noexcept;
  /// What it keeps and has taken nothing from since rest().
  static Range* drain_resting(ThreadCache& cache, size_t& most) noexcept;
  /// From here on it counts anew what is taken. Idle lanes serve other streams and threads.
  void rest(ThreadCache& cache) noexcept;

  /// Makes sure that the cache keeps what is freed on a stream, if there is memory for that. Where that takes
  /// a lane from another stream, up to kAtATime blocks that were in it are returned, as a list; if there are
  /// more, a later call goes on.
  Range* open_lane(ThreadCache& cache, Stream stream) noexcept;
  /// All that the cache keeps of a stream, as a list, after which it has no lane for it.
  Range* close_lane(ThreadCache& cache, Stream stream) noexcept;

  uint64_t bytes() const noexcept {
    return caches_.size() * sizeof(ThreadCache) + lane_count_ * sizeof(Lane);
  }
  /// With all caches locked.
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
