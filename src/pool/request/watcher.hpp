// SPDX-License-Identifier: Apache-2.0
// Sees a pool's mallocs and frees: takes samples of who holds the memory, and tells a recording.
//
// Nothing here is on the hot path. A malloc comes here because the counters, which compare with a level
// anyway, were told to look out for it. A free comes here because the tag, which it compares anyway, says
// that the block takes the long way.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/no_copy.hpp"
#include "core/range.hpp"
#include "pool/request/watched_call.hpp"
#include "watch/recorder.hpp"

namespace gpupool::internal {

class Sampler;
struct Lane;
struct PoolState;
struct ThreadCache;

/// Each function says which locks it needs.
class Watcher : NoCopy {
 public:
  Watcher(PoolState& pool, Sampler& sampler) noexcept : pool_(pool), sampler_(sampler) {}

  /// A recording has begun or ended, or samples have a new distance. Then watch_anew() has to be called for
  /// every pool.
  static void begin_epoch() noexcept;
  /// With the pool's lock. Returns what a recording that has begun is to be told, once the lock is given up,
  /// since names of stacks are looked up for it. Allocates only while a recording is on.
  std::vector<Entry> watch_anew();

  /// Draws the marks of all caches anew, once in a while, since some may have been thinned. With the pool's
  /// lock: a thread that only hits its cache looks at no clock, so others do it for it.
  void draw_if_due() noexcept;
  /// The same for whoever has the lock for something else, and cheap.
  void look() noexcept {
    constexpr uint32_t kLooks = 16;
    if (++looks_ % kLooks == 0) draw_if_due();
  }

  /// Sees whether a malloc has to be reported, and how: in `seen`, which is new. Called under the lock of its
  /// cache, as the last step with its block there.
  void see_malloc(ThreadCache& cache, Range& block, WatchedCall& seen) noexcept;
  /// Call it with no lock held, since the functions that take stacks may do what they like. Until its malloc
  /// returns, nobody else has the block.
  void tell_malloc(const WatchedCall& seen) noexcept {
    if (seen.is_sampled || seen.recording != 0) tell_seen(seen);
  }

  /// The lane for a block that takes the short way when it is freed, apart from being watched; else null.
  /// Under its cache's lock.
  static Lane* lane_if_only_watched(const ThreadCache& cache, const Range& block, Address address,
                                    Stream stream) noexcept;
  /// Removes the watchers' marks from a live block that is being freed, under the lock of its cache.
  WatchedCall see_free(ThreadCache& cache, Range& block) noexcept;
  /// With any lock, or none.
  void tell_free(const WatchedCall& seen) const noexcept;

  // For a recording only, with the pool's lock.

  void record_use(const Range& block, Stream stream) const noexcept;

  /// With no lock held. Waits while a ring's file makes way, so that the failure is in one of the two.
  void record_failure(uint64_t bytes) const noexcept;

 private:
  void set_level(ThreadCache& cache, uint64_t live) noexcept;
  void pass_mark(ThreadCache& cache, WatchedCall& seen) noexcept;
  void return_mark(ThreadCache& cache, const Range& block) noexcept;
  void tell_seen(const WatchedCall& seen) noexcept;
  void tell_fully(const WatchedCall& seen) noexcept;
  void record_malloc(const WatchedCall& seen, TagId tag, StackId stack) const noexcept;
  void name_in_recording() const noexcept {
    if (named_in_.load(std::memory_order_relaxed) != Recorder::generation()) name_pool();
  }
  void name_pool() const noexcept;
  std::vector<Entry> state_for_recording() const;

  PoolState& pool_;
  Sampler& sampler_;
  uint32_t looks_ = 0;
  uint64_t drawn_until_ns_ = 0;
  mutable std::atomic<uint32_t> named_in_{0};  // the recording that knows this pool's name
  uint32_t stated_in_ = 0;                     // the recording that knows what was there when it began
};

}  // namespace gpupool::internal
