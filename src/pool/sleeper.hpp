// SPDX-License-Identifier: Apache-2.0
// Sleep and wake: a pool's memory goes back to the device, and later comes back to the same addresses.
//
// Blocks, heaps and streams stay as they are. Only the chunks change: one that is asleep stays where it was
// in the records, but its memory is away. Meanwhile no memory is handed out: threads' caches are drained and
// have no lanes, so every malloc and free comes to the pool's lock, where admit() stops the mallocs. A pool
// that never sleeps pays nothing for this on the hot path.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/space.hpp"
#include "pool/backup.hpp"
#include "pool/sleep_hooks.hpp"

namespace gpupool::internal {

class Pool;

/// gpupool_sleep_options_t, checked.
struct SleepOptions {
  bool drops = false;
  bool sync_context = false;
  bool hold_mallocs = false;
  bool retain_backup = false;
  int fill = -1;  // a byte; -1: none
  uint64_t timeout_ns = 0;
  uint64_t target = 0;  // bytes that a sleep gives back; 0: all, and the pool sleeps
};

/// Guarded by the pool's lock, which it gives up for what may take long: page-locking, copies, waits. Sleep,
/// wake and prepare take turns.
class Sleeper {
 public:
  using Lock = QuietLock;
  using Result = gpupool_sleep_result_t;

  explicit Sleeper(Pool& pool);
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  // What the functions of gpupool.h with these names do. They add to `result`.

  Status sleep(const SleepOptions& options, Result& result);
  Status wake(const SleepOptions& options, Result& result);
  Status sleep_block(Address address, const SleepOptions& options, Result& result);
  Status wake_block(Address address, const SleepOptions& options, Result& result);
  static Status sleep_tag(const char* tag, const SleepOptions& options, Result& result);
  static Status wake_tag(const char* tag, const SleepOptions& options, Result& result);
  /// The same for the given pools.
  static Status sleep_all(std::vector<std::shared_ptr<Pool>> pools, const SleepOptions& options,
                          Result& result);
  static Status wake_all(std::vector<std::shared_ptr<Pool>> pools, const SleepOptions& options,
                         Result& result);
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

  /// Sleeps if allow() was called since the last wake. Returns how much the device has got back.
  uint64_t sleep_for_neighbours();

  // For the pool, which holds its lock.

  bool is_awake() const noexcept { return state_ == GPUPOOL_SLEEP_STATE_AWAKE; }
  /// Call it before handing memory out, and again after giving the lock up. ASLEEP, or waits until awake.
  Status admit(Lock& lock) { return is_awake() ? kSuccess : refuse_or_wait(lock); }
  /// Forgets a block that is freed.
  void forget(Address address) noexcept {
    if (!keep_.empty()) keep_.erase(address);
    if (!watched_.empty() && watched_.erase(address) != 0) hooks_.forget(address);
  }
  /// Whether any of a block's memory is away.
  bool is_asleep(const Range& block) const noexcept {
    return away_ + alone_chunks_ != 0 && has_asleep(block);
  }
  /// Whether a block sleeps alone, or is about to: free it with free_block().
  bool is_alone(Address block) const noexcept { return !alone_.empty() && alone_.contains(block); }
  void free_block(Range& block) noexcept;
  /// Bytes that waking will create.
  uint64_t asleep_bytes() const noexcept { return asleep_bytes_; }
  /// Bytes of the host that it holds.
  uint64_t backup_bytes() const noexcept { return backup_.capacity(); }
  const std::string& current_name() const noexcept { return name_; }
  void add_stats(gpupool_stats_t& stats) const noexcept;
  void describe(std::string& report) const;
  /// At the pool's end, first of all: waits for a sleep that neighbours have asked for.
  void end_allowance(Lock& lock);
  /// At the pool's end: releases what is asleep without waking it, and frees the host's memory.
  void end(Lock& lock) noexcept;

 private:
  /// Live bytes, and small holes between them, that are saved at `offset` of the backup.
  struct Run {
    Address address = 0;
    uint64_t size = 0;
    uint64_t offset = 0;
  };
  /// A chunk on its way to sleep or back.
  struct Entry {
    Chunk* chunk = nullptr;
    bool created = false;
    bool mapped = false;  // by this wake
  };
  /// Neighbouring chunks that are copied, mapped and unmapped together; or one chunk that backs nothing.
  struct Batch {
    Address start = 0;
    uint64_t size = 0;
    size_t first = 0;  // the first of its entries
    size_t count = 0;
    Event event = 0;  // behind its copies
  };
  struct Plan {
    std::vector<Entry> entries;
    std::vector<Batch> batches;
    std::vector<Run> runs;          // by address
    std::vector<Run> dropped_runs;  // for a wake: live bytes that were not saved
    uint64_t backup_bytes = 0;
    uint64_t saved = 0;    // of live blocks
    uint64_t dropped = 0;  // the same
    uint64_t missing = 0;  // to be created
    bool is_part = false;  // only one block's chunks
  };
  /// A block that could go, for a sleep with a target.
  struct Candidate {
    Address address = 0;
    uint64_t bytes = 0;  // in chunks wholly inside it
    bool is_saved = false;
    uint64_t taken = 0;  // when it was handed out, or woken
  };
  /// What a wake is for: everything, or one block, or only what the pool's own sleep has put away.
  struct Part {
    Address block = 0;
    bool is_own = false;
  };

  /// A thread's turn to sleep, wake or prepare. The lock must be held when it ends.
  class Turn;
  /// A block's way to sleep or back in an awake pool. The lock must be held when it ends.
  class Transit;
  /// While it lives, frees of candidates are noticed.
  class Watch;

  Status check_kind() const;
  Status check_own(Address block);
  Status sleep_now(Lock& lock, const SleepOptions& options, Result& result);
  Status begin_sleep(Lock& lock, const SleepOptions& options, Result& result);
  void undo_sleep(Lock& lock);
  template <typename Function>
  static Status attempt(Function function);
  void become_awake() noexcept;
  Status tell_awake(Lock& lock);
  Range* find_live(Address address) const noexcept;
  bool add_mark(Range& block) noexcept;
  void remove_mark(Address address) noexcept;
  Status refuse_woken() const;
  static void add_to(Result& sum, const Result& more) noexcept;
  [[gnu::cold]] Status refuse_or_wait(Lock& lock);

  // asleep.cpp: what both ways need
  template <typename Wanted>
  void add_chunks(Plan& plan, Wanted wanted) const;
  static void add_chunk(Plan& plan, Chunk* chunk);
  static void add_run(Plan& plan, const Range& range, uint64_t most_gap);
  template <typename Visit>
  static Status for_parts(const std::vector<Run>& runs, const Batch& batch, Visit visit);
  const Run* find_saved(Address address) const noexcept;
  void place(Plan& plan) const;
  uint64_t backup_end(const Plan& plan) const noexcept;
  Status prepare_copies(Lock& lock, const Plan& plan);
  void reserve_saved(size_t count);
  void add_saved(const std::vector<Run>& runs) noexcept;
  void find_saved_end() noexcept;
  void forget_saved() noexcept;
  void forget_saved(Address start, Address end) noexcept;
  Status open_streams();
  Status copy_batch(const Plan& plan, Batch& batch, size_t lane, bool to_host);
  Status wait_for_batch(Lock& lock, Batch& batch);
  void abandon_copies(Lock& lock, Plan& plan) noexcept;
  void wait_for_copies(Lock& lock) noexcept;
  void release_chunk(Chunk& chunk) noexcept;
  void release_backup(Lock& lock, uint64_t keep) noexcept;
  void end_region(Region& region) noexcept;
  void end_chunk(Chunk* chunk) noexcept;

  // sleep_allowance.cpp
  void end_allowance() noexcept;

  // fall_asleep.cpp
  Status fall_asleep(Lock& lock, const SleepOptions& options, Result& result);
  void drain_lanes() noexcept;
  Status check_captures();
  Status wait_for_work(Lock& lock, const SleepOptions& options);
  Status quiesce(Lock& lock, const SleepOptions& options);
  Status release_free();
  bool saves(const Range& range, const SleepOptions& options) const noexcept;
  void plan_runs(Plan& plan, const SleepOptions& options, uint64_t most_gap) const;
  static void add_awake_parts(Plan& plan, const Range& range, bool saves);
  Status save_runs(Lock& lock, Plan& plan);
  Status unmap_and_release(Lock& lock, Plan& plan, bool at_once);
  Status unmap_old();
  Status unmap_batch(const Plan& plan, const Batch& batch);
  void release_batch(const Plan& plan, const Batch& batch) noexcept;

  // sleep_block.cpp
  Status put_to_sleep(Lock& lock, Address address, const SleepOptions& options, Result& result);
  Status save_and_unmap(Lock& lock, const Range& block, const SleepOptions& options, Result& result);
  Status agree(Lock& lock, Address address);
  void tell_if_awake(Lock& lock, Address address);
  void undo_block(Lock& lock, Plan& plan, Address address);
  void plan_sleep(Plan& plan, const Range& block, const SleepOptions& options) const;
  Status mark_alone(Range& block);
  void end_alone(Address address) noexcept;
  Status wake_one(Lock& lock, Address address, const SleepOptions& options, Result& result);
  void note_taken(Address address) noexcept;
  Status wake_alone(Lock& lock, const SleepOptions& options, Result& result);
  void drop_freed_alone(const Region& region, Address start, Address end) noexcept;
  void drop_alone(Chunk* chunk) noexcept;

  // sleep_target.cpp
  Status sleep_target(Lock& lock, const SleepOptions& options, Result& result);
  static Status sleep_target_all(const std::vector<std::shared_ptr<Pool>>& pools, const SleepOptions& options,
                                 Result& result);
  Status check_target();
  Status reach_target(Lock& lock, const SleepOptions& options, Result& result);
  Status release_idle(uint64_t bytes, Result& result);
  std::vector<Candidate> find_candidates(const SleepOptions& options) const;
  void watch(const std::vector<Candidate>& candidates);
  bool may_go(Address address) const noexcept;
  bool has_agreed(Lock& lock, Address address);
  Status sleep_candidates(Lock& lock, const std::vector<Candidate>& blocks, const SleepOptions& options,
                          Result& result);
  Status sleep_candidate(Lock& lock, Address address, const SleepOptions& options, Result& result);
  Status prepare_for(Lock& lock, const std::vector<Candidate>& blocks);

  // wake.cpp
  Status wake_chunks(Lock& lock, const SleepOptions& options, Part part, Result& result);
  void detach_freed();
  void coarsen_chunks() noexcept;
  void coarsen_chunks(const Range& block) noexcept;
  void plan_wake(Plan& plan, bool is_own) const;
  void add_contents(Plan& plan, const Range& range) const;
  static void count_contents(Plan& plan);
  Status plan_block(Plan& plan, Address address);
  static uint64_t bytes_in(const std::vector<Run>& runs, const Batch& batch);
  void release_cached(Lock& lock, uint64_t bytes);
  Status charge_room(Lock& lock, uint64_t bytes);
  Status create_all(Plan& plan);
  Status create_entry(Plan& plan, Entry& entry);
  Status restore_all(Lock& lock, const SleepOptions& options, Plan& plan);
  Status restore_batch(Plan& plan, Batch& batch);
  Status map_old();
  Status fill_dropped(Lock& lock, Plan& plan, int value);
  void undo_restore(Plan& plan) noexcept;
  void commit(Plan& plan) noexcept;

  Pool& pool_;
  MeteredDevice& device_;
  gpupool_sleep_state_t state_ = GPUPOOL_SLEEP_STATE_AWAKE;
  bool busy_ = false;  // a thread has its turn
  std::thread::id owner_;
  std::condition_variable_any changed_;
  bool hold_mallocs_ = false;
  bool drops_ = false;                   // how it fell asleep
  std::optional<SleepOptions> allowed_;  // neighbours may have it put to sleep, in this way
  SleepHooks hooks_;
  bool copies_pending_ = false;  // the wait for some failed, so the backup stays
  std::string name_;
  std::unordered_set<Address> keep_;  // blocks that are saved in any case; their frees take the long way
  Backup backup_;
  uint64_t prepared_ = 0;   // bytes of the backup that stay while it is awake
  std::vector<Run> runs_;   // the bytes that are saved, by address
  uint64_t saved_end_ = 0;  // end of the part of the backup that they are in
  std::array<Stream, 2> streams_{};
  bool has_streams_ = false;
  uint64_t asleep_bytes_ = 0;  // of chunks whose memory the device has
  uint64_t away_ = 0;          // count of chunks asleep with the pool, and of old mappings away
  uint64_t alone_chunks_ = 0;  // count of those asleep alone
  /// Blocks that sleep alone, each with how many records it was promised for its free.
  std::unordered_map<Address, size_t> alone_;
  std::unordered_set<Address> watched_;  // blocks of which a sleep with a target may choose
  size_t freed_records_ = 0;             // promised to blocks that were freed while the pool was not awake
  Address transit_ = 0;                  // the block on its way to sleep or back while the pool is awake
  Range* freed_ = nullptr;               // that block, if it was freed meanwhile
  bool has_woken_blocks_ = false;        // while the pool sleeps on
  uint64_t sleeps_ = 0;
  uint64_t wakes_ = 0;
};

}  // namespace gpupool::internal
