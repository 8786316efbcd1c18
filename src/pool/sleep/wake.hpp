// SPDX-License-Identifier: Apache-2.0
// Waking. The whole need is charged to the limit, and looked for on the device, before the first chunk is
// created; a failure releases all that was created, and the pool sleeps on with what it had saved.
#pragma once

#include <array>
#include <chrono>
#include <optional>

#include "base/no_copy.hpp"
#include "base/status.hpp"
#include "pool/rules/pool_lock.hpp"
#include "pool/sleep/sleep_context.hpp"
#include "pool/sleep/sleep_options.hpp"
#include "pool/sleep/sleep_plan.hpp"
#include "pool/sleep/wake_queue.hpp"
#include "share/member.hpp"

namespace gpupool::internal {

/// Lives for one wake, under the pool's lock, which it gives up for copies and waits. The thread has the
/// Sleeper's turn.
class Waking : NoCopy {
 public:
  using Result = gpupool_sleep_result_t;
  /// What it is for: everything, or one block, or only what the pool's own sleep has put away.
  struct Part {
    Address block = 0;
    bool is_own = false;
  };

  Waking(SleepContext& in, PoolLock& lock, const SleepOptions& options) noexcept
      : in_(in), lock_(lock), options_(options) {}

  /// Everything from asleep to awake, or a part. On failure all is asleep as before. Throws std::bad_alloc.
  Status run(Part part, Result& result);

 private:
  using Plan = SleepPlan;
  using Batch = SleepPlan::Batch;

  Status pause(interrupts::Patience& patience, std::chrono::steady_clock::time_point until);
  void plan_wake(Plan& plan, bool is_own) const;
  void add_contents(Plan& plan, const Range& range) const;
  Status plan_block(Plan& plan, Address address);
  std::array<Scarce, 3> needs() const noexcept;
  Scarce scarce_after(Status shortage, uint64_t bytes) const noexcept;
  void release_cached(uint64_t bytes);
  Status charge_room(uint64_t bytes);
  Status try_charge(uint64_t bytes);
  void make_room(uint64_t bytes, Status shortage, std::optional<share::Turn>& turn);
  Status create_all(Plan& plan);
  Status restore_all(Plan& plan);
  Status fill_dropped(Plan& plan, int value);

  SleepContext& in_;
  PoolLock& lock_;
  const SleepOptions& options_;
};

}  // namespace gpupool::internal
