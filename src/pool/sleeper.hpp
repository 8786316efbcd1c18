// SPDX-License-Identifier: Apache-2.0
// Sleep and wake: a pool's memory goes back to the device, and later comes back to the same addresses.
//
// Blocks, heaps and streams stay as they are. Only the chunks change: one that is asleep stays where it was
// in the records, but its memory is away. Meanwhile no memory is handed out: threads' caches are drained and
// have no lanes, so every malloc and free comes to the pool's lock, where admit() stops the mallocs. A pool
// that never sleeps pays nothing for this on the hot path.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/space.hpp"
#include "pool/allowance.hpp"
#include "pool/asleep_chunks.hpp"
#include "pool/bedroom.hpp"
#include "pool/lone_blocks.hpp"
#include "pool/saved_bytes.hpp"
#include "pool/sleep_hooks.hpp"
#include "pool/sleep_options.hpp"

namespace gpupool::internal {

class Pool;

/// Guarded by the pool's lock, which it gives up for what may take long: page-locking, copies, waits. Sleep,
/// wake and prepare take turns.
class Sleeper {
 public:
  using Lock = QuietLock;
  using Result = gpupool_sleep_result_t;

  explicit Sleeper(Pool& pool);
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  /// A malloc that may have to wait for a wake. If it had to, the pool does not sleep again before it leaves:
  /// else it might never find the pool awake. For as long as it holds the lock, or gives way to others.
  class Guest {
   public:
    explicit Guest(Sleeper& sleeper) noexcept : sleeper_(sleeper) {}
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;
    ~Guest() { leave(); }
    Status admit(Lock& lock) { return sleeper_.is_awake() ? kSuccess : sleeper_.refuse_or_wait(lock, *this); }
    void leave() noexcept {
      if (has_waited_) sleeper_.end_guest(*this);
    }

   private:
    friend class Sleeper;
    Sleeper& sleeper_;
    bool has_waited_ = false;
  };

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
  Status check_target();
  /// Releases cached memory, and adds it to `result`.
  Status release_idle(uint64_t bytes, Result& result);
  /// How it fell asleep.
  SleepOptions last_options();

  // For the pool, which holds its lock.

  bool is_awake() const noexcept { return state_ == GPUPOOL_SLEEP_STATE_AWAKE; }
  /// Call it before handing memory out, and again after giving the lock up. ASLEEP, or waits until awake.
  Status admit(Lock& lock) { return Guest(*this).admit(lock); }
  /// Forgets a block that is freed.
  void forget(Address address) noexcept { blocks_.forget(address); }
  /// Whether any of a block's memory is away.
  bool is_asleep(const Range& block) const noexcept { return chunks_.are_in(block); }
  /// Whether a block sleeps alone, or is about to: free it with free_block().
  bool is_alone(Address block) const noexcept { return blocks_.is_alone(block); }
  void free_block(Range& block) noexcept { blocks_.free_block(block); }
  /// Bytes that waking will create.
  uint64_t asleep_bytes() const noexcept { return chunks_.bytes(); }
  /// Bytes of the host that it holds.
  uint64_t backup_bytes() const noexcept { return saved_.capacity(); }
  const std::string& current_name() const noexcept { return name_; }
  void add_stats(gpupool_stats_t& stats) const noexcept;
  void describe(std::string& report) const;
  /// At the pool's end, first of all: waits for a sleep that others have asked for.
  void end_allowance(Lock& lock);
  /// At the pool's end: releases what is asleep without waking it, and frees the host's memory.
  void end(Lock& lock) noexcept;

 private:
  /// A thread's turn to sleep, wake or prepare. The lock must be held when it ends.
  class Turn;

  Status check_kind() const;
  Status sleep_now(Lock& lock, const SleepOptions& options, Result& result);
  Status begin_sleep(Lock& lock, const SleepOptions& options, Result& result);
  void undo_sleep(Lock& lock);
  void become_awake() noexcept;
  Status refuse_woken() const;
  [[gnu::cold]] Status refuse_or_wait(Lock& lock, Guest& guest);
  void end_guest(Guest& guest) noexcept;

  Pool& pool_;
  MeteredDevice& device_;
  gpupool_sleep_state_t state_ = GPUPOOL_SLEEP_STATE_AWAKE;
  bool busy_ = false;  // a thread has its turn
  std::thread::id owner_;
  std::condition_variable_any changed_;
  bool hold_mallocs_ = false;
  bool drops_ = false;  // how it fell asleep
  Allowance allowance_;
  SleepHooks hooks_;
  std::string name_;
  SavedBytes saved_;
  AsleepChunks chunks_;
  LoneBlocks blocks_;
  const Bedroom bedroom_;
  bool has_woken_blocks_ = false;  // while the pool sleeps on
  uint64_t slept_at_ = 0;          // the step in which any of it went to sleep last
  uint32_t guests_ = 0;            // mallocs that wait for the wake, or have
  uint64_t sleeps_ = 0;
  uint64_t wakes_ = 0;
};

}  // namespace gpupool::internal
