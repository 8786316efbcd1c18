// SPDX-License-Identifier: Apache-2.0
// Sleep and wake: a pool's memory goes back to the device, and later comes back to the same addresses.
//
// Blocks, heaps and streams stay as they are. Only the chunks change: one that is asleep stays where it was
// in the records, but its memory is away. Meanwhile no memory is handed out: threads' caches are drained and
// have no lanes, so every malloc and free comes to the pool's lock, where admit() stops the mallocs. A pool
// that never sleeps pays nothing for this on the hot path.
#pragma once

#include <string>

#include "base/no_copy.hpp"
#include "pool/sleep/allowance.hpp"
#include "pool/sleep/sleep_context.hpp"
#include "pool/sleep/sleep_options.hpp"

namespace gpupool::internal {

/// Guarded by the pool's lock, which it gives up for what may take long: page-locking, copies, waits. Sleep,
/// wake and prepare take turns.
class Sleeper : NoCopy {
 public:
  using Lock = PoolLock;
  using Result = gpupool_sleep_result_t;

  Sleeper(PoolState& pool, const SleepParts& parts) noexcept
      : pool_(pool), in_(pool, parts), allowance_(pool.group) {}

  // What the functions of gpupool.h with these names do. They add to `result`.

  Status sleep(const SleepOptions& options, Result& result);
  Status wake(const SleepOptions& options, Result& result);
  Status sleep_block(Address address, const SleepOptions& options, Result& result);
  Status wake_block(Address address, const SleepOptions& options, Result& result);
  Status allow(const SleepOptions& options);
  gpupool_sleep_state_t state();
  bool is_all_asleep();
  bool is_all_awake();
  Status set_name(const char* name);
  std::string name();
  Status set_keep(Address address, bool keep);
  void set_hooks(gpupool_sleep_hook_fn_t before, gpupool_sleep_hook_fn_t after, void* user);
  Status prepare(uint64_t bytes);
  Status backup(Address address, const void*& data, uint64_t& bytes);
  Status read_backup(Address address, void* data, uint64_t bytes);

  /// Sleeps if allow() was called since the last wake; or waits for such a sleep on another thread. Returns
  /// how much has gone back.
  uint64_t sleep_for_others();
  /// When allow() was called last, in steps of all pools; 0: not since the last wake.
  uint64_t allowed_since();

  // For a sleep or wake of several pools.

  /// What a sleep with a target would refuse, before any pool has changed.
  Status check_target(const SleepOptions& options);
  /// Releases cached memory, and adds it to `result`.
  Status release_idle(uint64_t bytes, Result& result);
  /// How it fell asleep.
  SleepOptions last_options();

  // For the pool, which holds its lock.

  /// Sees blocks that sleep alone when they are freed.
  Keeper& keeper() noexcept { return in_.blocks; }
  /// UNAVAILABLE if a block sleeps alone, or is about to.
  Status check_awake(Address block) const;
  /// Bytes that waking will create.
  uint64_t asleep_bytes() const noexcept { return in_.chunks.bytes(); }
  /// Bytes of the host that it holds.
  uint64_t backup_bytes() const noexcept { return in_.saved.capacity(); }
  void add_stats(gpupool_stats_t& stats) const noexcept;
  /// What of the pool is asleep, for its report; "": nothing.
  std::string describe() const;
  /// At the pool's end, first of all: waits for a sleep that others have asked for.
  void end_allowance(Lock& lock);
  /// At the pool's end: releases what is asleep without waking it, and frees the host's memory.
  void end(Lock& lock) noexcept;

 private:
  /// A thread's turn to sleep, wake or prepare: one has it at a time. The lock is held when it begins, and
  /// must be when it ends.
  class SleepTurn : NoCopy {
   public:
    SleepTurn(Sleeper& sleeper, Lock& lock) noexcept : sleeper_(sleeper), lock_(lock) {}
    ~SleepTurn();

    /// Waits for its turn. UNAVAILABLE if this thread has it already.
    Status begin();

   private:
    Sleeper& sleeper_;
    Lock& lock_;
    bool has_it_ = false;
  };

  Status check_kind(const SleepOptions& options) const;
  Status sleep_now(Lock& lock, const SleepOptions& options, Result& result);
  Status begin_sleep(Lock& lock, const SleepOptions& options, Result& result);
  void undo_sleep(Lock& lock);
  void become_awake() noexcept;
  Status refuse_woken() const;

  PoolState& pool_;
  SleepContext in_;
  Allowance allowance_;
  bool busy_ = false;   // a thread has its turn
  bool drops_ = false;  // how it fell asleep
  uint64_t sleeps_ = 0;
  uint64_t wakes_ = 0;
};

}  // namespace gpupool::internal
