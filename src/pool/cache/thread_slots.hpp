// SPDX-License-Identifier: Apache-2.0
// From the calling thread and a pool's number to the thread's cache, without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpupool::internal {

struct ThreadCache;

/// A direct-mapped table in thread-local storage; pools have numbers from 1, in order, so that eight pools in
/// use at a time do not get in each other's way. Trivially destructible: a hook at the thread's end returns
/// the caches, and storage goes with the thread.
class ThreadSlots {
 public:
  /// The thread's cache of a pool, or null if it has none yet. One thread-local load and a compare.
  static ThreadCache* find(uint64_t pool_id) noexcept {
    const Slot& slot = slots_[pool_id % kSlots];
    return slot.pool_id == pool_id ? slot.cache : nullptr;
  }

  /// Remembers a cache; the cache whose place it takes is returned to its pool. Call without the pool's lock.
  static void remember(uint64_t pool_id, ThreadCache* cache) noexcept;

  /// Whether this thread is ending, so that what it is given now may never be returned by itself.
  static bool is_ending() noexcept { return ending_; }

  /// Returns the thread's cache of a pool at once. Call without the pool's lock.
  static void forget(uint64_t pool_id) noexcept;

  /// Who takes caches back, by their pools' numbers. A pool may be gone by then, and its caches with it.
  using Return = void (*)(uint64_t pool_id, ThreadCache* cache) noexcept;
  static void set_return(Return give_back) noexcept { return_.store(give_back); }

  /// Forgets everything without returning it: in the child after fork.
  static void forget_all() noexcept;

 private:
  struct Slot {
    uint64_t pool_id;
    ThreadCache* cache;
  };
  static constexpr size_t kSlots = 8;
  using Slots = std::array<Slot, kSlots>;

  static void close(const Slot& slot) noexcept;
  static void on_thread_exit(void* slots) noexcept;
  static void watch_exit() noexcept;

  static std::atomic<Return> return_;
  static thread_local constinit Slots slots_;
  static thread_local constinit bool ending_;
};

}  // namespace gpupool::internal
