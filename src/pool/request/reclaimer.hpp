// SPDX-License-Identifier: Apache-2.0
// The way back of memory: drained from caches and settled from pending frees into heaps, where a source may
// take it.
#pragma once

#include <cstddef>
#include <span>

#include "base/no_copy.hpp"
#include "base/status.hpp"
#include "core/range.hpp"
#include "pool/memory/exports.hpp"
#include "pool/request/keeper.hpp"
#include "pool/rules/pool_lock.hpp"
#include "pool/rules/stream_user.hpp"

namespace gpupool::internal {

class StreamOrder;
struct PoolState;
struct ThreadCache;

/// Guarded by the pool's lock, which it gives up where it is passed.
class Reclaimer : NoCopy {
 public:
  Reclaimer(PoolState& pool, Exports& exports) noexcept : pool_(pool), exports_(exports) {}

  /// From here on freed blocks go to `debug` in place of their heaps, if there are debug modes, and those
  /// that sleep alone to `sleep`.
  void set_keepers(Keeper* debug, Keeper* sleep) noexcept {
    debug_ = debug;
    sleep_ = sleep;
  }

  static constexpr size_t kAll = ~size_t{0};

  /// A live block is freed by its user.
  void note_free(Address block) noexcept {
    exports_.close(block);
    sleep_->note_free(block);
  }
  /// Turns a block into a hole of its heap.
  void free_to_heap(Range& block) noexcept;
  /// The same for each block of a list through Range::link.
  void free_all_to_heap(Range* first) noexcept;
  /// Settles a freed block that, in this process, only its own stream still uses.
  void settle(Range& block) noexcept;

  /// Drains one block: the smallest small one of a stream in the calling thread's cache that is larger than
  /// `bytes`. False: there is none.
  bool drain_larger(Stream stream, uint64_t bytes) noexcept;

  /// Whether caches keep blocks of a group though a request of `bytes` finds no hole: Surplus says when.
  bool keeps_caches(SizeGroup group, uint64_t bytes) const noexcept;

  // Draining takes blocks from threads' caches. These give way to other threads in between.

  /// Blocks of a stream, from all caches: up to `most`. True: there may be more.
  bool drain_stream(PoolLock& lock, Stream stream, SizeGroup group, size_t most = kAll);
  /// One cache's blocks of a stream.
  void drain_lane(PoolLock& lock, ThreadCache& cache, Stream stream);
  void drain_all(PoolLock& lock);
  /// If caches keep most blocks, and many: drains small ones of the calling thread until chunks of `bytes`
  /// that they filled are free, beginning with those of a stream. One malloc would take long to drain all,
  /// and few chunks become free before the end. False: they do not, or not enough was found.
  bool drain_chunks(PoolLock& lock, Stream first, uint64_t bytes);
  /// Drains the calling thread's cache, and in other caches the bins that no malloc has touched since the
  /// last call. Threads at work keep their blocks: else they would take from each other without end what they
  /// are about to use again, at a driver call each time. Stops after `most` blocks.
  void drain_resting(PoolLock& lock, size_t most = kAll);

  /// Turns some of the freed blocks that every stream has passed into holes, and counts them. With `all`, 0:
  /// none is left.
  size_t settle_pending(bool all = false);
  /// The same for those that other processes had imported.
  size_t settle_exports(bool all) noexcept;
  /// Lets what debug modes hold back be reused: all, or only what waits for a look. False: there was none.
  bool release_kept(bool all) noexcept { return debug_ != nullptr && debug_->release(all); }
  /// Settles all of them, and gives way to other threads in between. 0: there was none.
  size_t settle_all_pending(PoolLock& lock);

  /// How much of what is queued a wait is for: what may use freed memory, or all work of the device.
  enum class Extent { freed, everything };
  /// Waits, without the lock, until the streams have passed what was queued when their turn came. Legal
  /// beside captures.
  Status wait_for_streams(PoolLock& lock, const char* why, Extent extent);
  /// The same, and until every block that was freed by then is a hole that any stream may use, except those
  /// in a quarantine that is not `emptied`.
  Status wait_for_frees(PoolLock& lock, const char* why, bool emptied);

  /// The same, if what was freed on no known stream has come to much: some stream may never leave an event.
  void bound_unattributed(PoolLock& lock);

  /// Does not touch a stream again: for good, or until it is named again. From here on, frees of its blocks
  /// take the long way, and no thread keeps a lane for it.
  Status retire_stream(PoolLock& lock, const StreamUser& user, bool for_good);

 private:
  struct OpenEpoch {
    StreamOrder* order = nullptr;
    uint64_t context = 0;
    uint64_t epoch = 0;
  };
  Status wait_for_events(PoolLock& lock, size_t& waits, bool& is_covered);
  Status wait_for_uncovered(PoolLock& lock, Extent extent, size_t& waits);
  Status wait_for_context(PoolLock& lock, uint64_t context, std::span<OpenEpoch> open, size_t& waits);
  void free_to_heap(Range& block, uint64_t epoch) noexcept;
  bool hold_back(Range& block) noexcept;
  void settle_passed(Range& block) noexcept;
  bool has_many_cached() const noexcept;
  bool drain_chunk(ThreadCache& cache, Stream stream, uint64_t& found) noexcept;
  bool free_chunk(Range* block, uint64_t& found) noexcept;
  template <typename Take>
  size_t drain_in_parts(PoolLock& lock, ThreadCache& cache, Take take, size_t most = kAll);

  PoolState& pool_;
  Exports& exports_;
  Keeper* debug_ = nullptr;
  Keeper* sleep_ = nullptr;
  uint64_t settled_ = 0;  // blocks so far
};

}  // namespace gpupool::internal
