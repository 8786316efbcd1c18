// SPDX-License-Identifier: Apache-2.0
// The way back of memory: drained from caches and settled from pending frees into heaps, where a source may
// take it.
#pragma once

#include <cstddef>
#include <memory>

#include "base/status.hpp"
#include "core/range.hpp"
#include "pool/quiet_lock.hpp"

namespace gpupool::internal {

class Debugger;
class Exports;
class Pending;
class Sleeper;
struct Rooms;
struct ThreadCache;

/// Guarded by the pool's lock, which it gives up where it is passed.
class WayBack {
 public:
  /// `debugger` may still be set.
  WayBack(const Rooms& rooms, Pending& pending, Exports& exports, Sleeper& sleeper,
          const std::unique_ptr<Debugger>& debugger) noexcept
      : rooms_(rooms), pending_(pending), exports_(exports), sleeper_(sleeper), debugger_(debugger) {}
  WayBack(const WayBack&) = delete;
  WayBack& operator=(const WayBack&) = delete;

  /// Turns a block into a hole of its heap.
  void free_to_heap(Range& block) noexcept;
  /// The same for each block of a list through Range::link.
  void free_all_to_heap(Range* first) noexcept;
  /// Settles a freed block that, in this process, only its own stream still uses.
  void settle(Range& block) noexcept;

  /// Drains one block: the smallest small one of a stream in the calling thread's cache that is larger than
  /// `bytes`. False: there is none.
  bool drain_larger(Stream stream, uint64_t bytes) noexcept;

  // Draining takes blocks from threads' caches. These give way to other threads in between.

  void drain_stream(QuietLock& lock, Stream stream, SizeGroup group);
  void drain_all(QuietLock& lock);
  /// Drains the calling thread's cache, and in other caches the bins that no malloc has touched since the
  /// last call. Threads at work keep their blocks: else they would take from each other without end what they
  /// are about to use again, at a driver call each time.
  void drain_resting(QuietLock& lock);

  /// Turns some of the freed blocks that every stream has passed into holes. With `all`, 0: none is left.
  size_t settle_pending(bool all = false);
  /// Settles all of them, and gives way to other threads in between. 0: there was none.
  size_t settle_all_pending(QuietLock& lock);

  /// Waits, without the lock, until every stream has passed what was queued when its turn came.
  Status wait_for_streams(QuietLock& lock, const char* why);
  /// The same, and until every block that was freed by then is a hole that any stream may use, except those
  /// in a quarantine that is not `emptied`.
  Status wait_for_frees(QuietLock& lock, const char* why, bool emptied);

  /// Does not touch a stream again: for good, or until it is named again. From here on, frees of its blocks
  /// take the long way, and no thread keeps a lane for it.
  Status retire_stream(QuietLock& lock, Stream stream, bool for_good);

 private:
  template <typename Take>
  void drain_in_parts(QuietLock& lock, ThreadCache& cache, Take take);

  const Rooms& rooms_;
  Pending& pending_;
  Exports& exports_;
  Sleeper& sleeper_;
  const std::unique_ptr<Debugger>& debugger_;
};

}  // namespace gpupool::internal
