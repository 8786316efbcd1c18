// SPDX-License-Identifier: Apache-2.0
// What a sleeping pool's blocks held: bytes of the host, and the copies to and from them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/no_copy.hpp"
#include "base/status.hpp"
#include "core/space.hpp"
#include "pool/sleep/backup.hpp"
#include "pool/sleep/sleep_plan.hpp"

namespace gpupool::internal {

/// Guarded by the pool's lock, which it gives up where it is passed. Only the thread that has the Sleeper's
/// turn changes it, or frees a block that sleeps.
class SavedBytes : NoCopy {
 public:
  SavedBytes(MeteredDevice& device, const Space& space) noexcept
      : device_(device), space_(space), backup_(device) {}

  /// By address.
  const std::vector<SavedRun>& runs() const noexcept { return runs_; }
  /// The run that holds an address; null if it was not saved.
  const SavedRun* find(Address address) const noexcept;
  /// Where byte `offset` is, and in `bytes` how many there are in one piece.
  Address at(uint64_t offset, uint64_t& bytes) const noexcept { return backup_.at(offset, bytes); }
  /// Bytes of the host that it holds.
  uint64_t capacity() const noexcept { return backup_.capacity(); }

  /// Gives a plan's runs their places: in the first room between what is saved, or behind it.
  void place(SleepPlan& plan) const;
  /// How much of the host's memory the plan needs.
  uint64_t end_with(const SleepPlan& plan) const noexcept;
  /// Gets the host's memory, and the streams, for what the plan saves; or for so many bytes more.
  Status prepare(PoolLock& lock, const SleepPlan& plan);
  Status prepare(PoolLock& lock, uint64_t bytes);
  /// Makes add() safe for so many runs. Throws std::bad_alloc.
  void reserve(size_t count);
  void add(const std::vector<SavedRun>& runs) noexcept;
  /// How often something was added.
  uint64_t saves() const noexcept { return saves_; }
  /// Forgets what was saved of memory that is awake, or whose addresses are bare.
  void forget() noexcept;
  /// Forgets what was saved of these addresses.
  void forget(Address start, Address end) noexcept;

  /// Opens the two streams of the pool's own copies: one copies while the other's batch is unmapped or
  /// mapped.
  Status open_streams();
  /// Queues the copies of a batch, and an event behind them if there are any. Call it with no lock held.
  Status copy_batch(const SleepPlan& plan, SleepPlan::Batch& batch, size_t lane, bool to_host);
  /// Fills what was not saved with a byte, and records an event in the last batch. Call it with no lock held.
  Status fill(SleepPlan& plan, int value);
  /// Waits for the copies of a batch.
  Status wait_for_batch(PoolLock& lock, SleepPlan::Batch& batch);
  /// After a failure: waits for the copies that were queued. If the driver refuses even that, the host's
  /// memory stays until a later wait succeeds, since a copy may still be under way to it.
  void abandon(PoolLock& lock, SleepPlan& plan) noexcept;
  /// Whether the wait for some copies has failed.
  bool has_copies_pending() const noexcept { return copies_pending_; }
  /// Waits for those, if there are any.
  void wait_for_pending(PoolLock& lock) noexcept {
    if (copies_pending_) wait_for_copies(lock);
  }

  /// How many bytes of the host stay while the pool is awake.
  Status set_kept(PoolLock& lock, uint64_t bytes);
  /// All that there are stay from now on.
  void keep_all() noexcept { kept_ = std::max(kept_, backup_.capacity()); }
  /// Frees what is not needed any more; later, if the call was interrupted: freeing page-locked memory waits
  /// for the device.
  void release(PoolLock& lock) noexcept {
    if (!interrupts::has_given_up()) shrink(lock, kept_);
  }
  /// Whether release() may have something to free.
  bool has_surplus() const noexcept { return backup_.capacity() > std::max(kept_, end_); }
  /// At the pool's end: frees everything.
  void end(PoolLock& lock) noexcept;

 private:
  void find_end() noexcept;
  void wait_for_copies(PoolLock& lock) noexcept;
  void shrink(PoolLock& lock, uint64_t keep) noexcept;

  MeteredDevice& device_;
  const Space& space_;
  Backup backup_;
  uint64_t kept_ = 0;           // bytes of it that stay while the pool is awake
  std::vector<SavedRun> runs_;  // the bytes that are saved, by address
  uint64_t saves_ = 0;
  uint64_t end_ = 0;  // end of the part of the backup that they are in
  std::array<Stream, 2> streams_{};
  bool has_streams_ = false;
  bool copies_pending_ = false;  // the wait for some failed, so the backup stays
};

}  // namespace gpupool::internal
