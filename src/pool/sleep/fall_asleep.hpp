// SPDX-License-Identifier: Apache-2.0
// Falling asleep. Everything that can fail for want of something comes first: before the first mapping goes,
// the streams have been waited for, the backup is there, and all copies are queued. From then on only the
// driver itself can refuse, and then what has gone comes back.
#pragma once

#include "base/no_copy.hpp"
#include "base/status.hpp"
#include "pool/rules/pool_lock.hpp"
#include "pool/sleep/sleep_context.hpp"
#include "pool/sleep/sleep_options.hpp"
#include "pool/sleep/sleep_plan.hpp"

namespace gpupool::internal {

class Streams;

/// Refuses during a capture: its graph would have the addresses of memory that is about to go.
Status check_no_capture(const Streams& streams);

/// Lives for one sleep, of a pool or of a block, under the pool's lock, which it gives up for copies and
/// waits. The thread has the Sleeper's turn.
class FallAsleep : NoCopy {
 public:
  using Plan = SleepPlan;
  using Result = gpupool_sleep_result_t;

  FallAsleep(SleepContext& in, PoolLock& lock, const SleepOptions& options) noexcept
      : in_(in), lock_(lock), options_(options) {}

  /// The whole pool. After a failure, what has gone is for the caller to bring back. Throws std::bad_alloc.
  Status run(Result& result);

  // The steps, for a block's plan too.

  /// Whether a block's contents are kept.
  bool saves(const Range& range) const noexcept;
  /// Waits until no work that is queued can touch the pool's memory.
  Status wait_for_work();
  /// Queues every copy, so that a refusal comes while all memory is still there.
  Status save_runs(Plan& plan);
  /// Unmaps each batch as its copies pass. Releases its memory with it, or, if contents are dropped, after
  /// the last unmap: nothing could bring those back if an unmap failed.
  Status unmap_and_release(Plan& plan);

 private:
  using Batch = SleepPlan::Batch;

  void drain_lanes() noexcept;
  Status quiesce();
  Status release_free();
  void plan_runs(Plan& plan, uint64_t most_gap) const;
  static void add_awake_parts(Plan& plan, const Range& range, bool saves);

  SleepContext& in_;
  PoolLock& lock_;
  const SleepOptions& options_;
};

}  // namespace gpupool::internal
