// SPDX-License-Identifier: Apache-2.0
// Single blocks that sleep in an awake pool. The chunks that lie wholly inside such a block are asleep, and
// nothing else is: no chunk that a malloc, a steal or a trim could take. A marked block's free comes to the
// pool's lock, where LoneBlocks::take() turns the addresses of its sleeping chunks bare.
#pragma once

#include "base/no_copy.hpp"
#include "base/status.hpp"
#include "pool/rules/pool_lock.hpp"
#include "pool/sleep/sleep_context.hpp"
#include "pool/sleep/sleep_options.hpp"
#include "pool/sleep/sleep_plan.hpp"

namespace gpupool::internal {

/// Whether nobody else relies on a block's memory: it is neither protected nor exported. 0: any block.
Status check_own(SleepContext& in, Address block);

/// Lives for one call, under the pool's lock, which it gives up for hooks, copies and waits. The thread has
/// the Sleeper's turn. Throws std::bad_alloc.
class BlockSleep : NoCopy {
 public:
  using Result = gpupool_sleep_result_t;

  BlockSleep(SleepContext& in, PoolLock& lock, const SleepOptions& options) noexcept
      : in_(in), lock_(lock), options_(options) {}

  Status sleep(Address address, Result& result);
  /// Wakes a block that sleeps, alone or with its pool.
  Status wake(Address address, Result& result);
  /// In an awake pool: wakes one block after another.
  Status wake_all(Result& result);
  /// Somebody needs this block: those that nobody has asked for go to sleep before it.
  void note_taken(Address address) noexcept;
  /// Tells the caller of all that is there again, but not of what was freed.
  Status tell_awake();

  // The steps, for a sleep with a target.

  /// Asks the hook whether the block may go.
  Status agree(Address address);
  /// Saves and unmaps a block on its way, which no work uses any more.
  Status save_and_unmap(const Range& block, Result& result);
  /// Tells the hook, which had agreed, if the block has not gone after all.
  void tell_if_awake(Address address);

 private:
  using Plan = SleepPlan;

  Status put_to_sleep(Address address, Result& result);
  void undo(Plan& plan, Address address);
  void plan_sleep(Plan& plan, const Range& block, bool saves) const;

  SleepContext& in_;
  PoolLock& lock_;
  const SleepOptions& options_;
};

}  // namespace gpupool::internal
