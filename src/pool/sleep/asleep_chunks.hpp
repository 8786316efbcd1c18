// SPDX-License-Identifier: Apache-2.0
// The chunks of a pool whose memory is away, or on its way back. One that is asleep stays where it was in the
// records.
#pragma once

#include <cstdint>

#include "base/no_copy.hpp"
#include "base/status.hpp"
#include "pool/sleep/sleep_plan.hpp"

namespace gpupool::internal {

struct PoolState;

/// Guarded by the pool's lock.
class AsleepChunks : NoCopy {
 public:
  explicit AsleepChunks(PoolState& pool) noexcept : pool_(pool) {}

  /// How many sleep with the pool, and old mappings with them.
  uint64_t away() const noexcept { return away_; }
  /// How many sleep alone.
  uint64_t alone() const noexcept { return alone_; }
  /// Whether any of a block's memory is away.
  bool are_in(const Range& block) const noexcept { return away_ + alone_ != 0 && has_asleep(block); }
  /// Bytes that waking will create.
  uint64_t bytes() const noexcept { return bytes_; }

  // To sleep: what is saved has been copied, or is about to be.

  /// Unmaps the old mappings that graphs keep, or that could not be undone before.
  Status unmap_old();
  /// `name` is the pool's, for whoever touches the addresses meanwhile.
  Status unmap_batch(const SleepPlan& plan, const SleepPlan::Batch& batch, const char* name);
  void release_batch(const SleepPlan& plan, const SleepPlan::Batch& batch) noexcept;

  // And back.

  /// Chunks that no block is in any more need no memory: their addresses become bare. Throws std::bad_alloc.
  void detach_freed();
  /// A large block gets its memory back in larger chunks: the driver is paid by the chunk.
  void coarsen() noexcept;
  void coarsen(const Range& block) noexcept;
  /// Has the device create a chunk, where it has the memory now.
  Status create(SleepPlan& plan, SleepPlan::Entry& entry);
  Status restore_batch(SleepPlan& plan, SleepPlan::Batch& batch);
  /// Maps the old mappings that graphs have built in.
  Status map_old();
  /// Undoes a wake that failed. What the driver does not take back stays, asleep and counted, for the next
  /// one; so does what a copy may still be under way to.
  void undo_restore(SleepPlan& plan, bool copies_pending) noexcept;
  /// What the plan has brought back is awake.
  void commit(SleepPlan& plan) noexcept;

  /// Drops the chunks in [start, end) that sleep alone, and that no block touches any more.
  void drop_freed(const Region& region, Address start, Address end) noexcept;
  /// At the pool's end: releases what is asleep without waking it, except chunks that a block touches: a
  /// block that waits for a capturing stream keeps its addresses.
  void end() noexcept;

 private:
  void release_chunk(Chunk& chunk) noexcept;
  void drop_alone(Chunk* chunk) noexcept;
  void end_region(Region& region) noexcept;
  void end_chunk(Chunk* chunk) noexcept;

  PoolState& pool_;
  uint64_t bytes_ = 0;  // of chunks whose memory the device has
  uint64_t away_ = 0;
  uint64_t alone_ = 0;
};

}  // namespace gpupool::internal
