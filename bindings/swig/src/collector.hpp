// SPDX-License-Identifier: Apache-2.0
// A malloc that fails while the language's collector may still hold memory: it sees small objects, not how
// much GPU memory each of them keeps, so it has no reason to hurry.
#pragma once

#include <atomic>
#include <cstdint>

#include "failure.hpp"
#include "handler.hpp"

namespace binding {

/// Defined by each language: runs the collector once, and returns when what it found has ended. Returns false
/// if there is something that the malloc must throw, such as what an out-of-memory handler has thrown.
inline bool run_collector() noexcept;
/// Defined by each language: whether a function that the library called on this thread has thrown, so that
/// the call must.
inline bool has_thrown() noexcept;

/// What keeps memory from every other malloc: blocks that free themselves, and children. Other pools share
/// what they have cached.
class Keepers {
 public:
  static void began() noexcept { begun_.fetch_add(1, std::memory_order_relaxed); }
  static void ended() noexcept { ended_.fetch_add(1, std::memory_order_relaxed); }

  /// Returns whether running the collector has ended any.
  static bool collect() noexcept {
    const uint64_t ended = ended_;
    return begun_ != ended && run_collector() && ended_ != ended;
  }
  /// How many have ended.
  static uint64_t count_ended() noexcept { return ended_; }

 private:
  static inline std::atomic<uint64_t> begun_{0};
  static inline std::atomic<uint64_t> ended_{0};
};

/// Calls a function that mallocs. If it fails for want of memory, asks the collector once, and if that ended
/// anything, calls the function again; otherwise the failure is the first one.
///
/// A malloc may put other pools to sleep. If one of their hooks throws, the malloc throws that in the end,
/// even if it has found memory elsewhere: then `undo` frees the block, which nobody will know.
template <class Malloc, class Undo>
void malloc_or_collect(const Malloc& malloc, const Undo& undo) {
  SleepHook::was_called = false;
  const gpupool_status_t status = malloc();
  if (status == GPUPOOL_SUCCESS) [[likely]] {
    if (!SleepHook::was_called || !has_thrown()) [[likely]]
      return;
    undo();
    throw Failure{make_error(GPUPOOL_ERROR_UNAVAILABLE, "a hook of another pool has thrown")};
  }
  const Failure failure = failure_of(status);  // before other calls of the library replace it
  const bool is_shortage = status == GPUPOOL_ERROR_OUT_OF_MEMORY || status == GPUPOOL_ERROR_OVER_LIMIT;
  if (!is_shortage || !Keepers::collect()) throw failure;
  check(malloc());
}

}  // namespace binding
