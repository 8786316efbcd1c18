// SPDX-License-Identifier: Apache-2.0
// A sleep with a target: gives back so many bytes, those that matter least first, and the pool stays awake.
// What is cached costs nothing; the rest comes from blocks that sleep alone, the idlest first.
//
// A block's chunks know when it was taken from its heap, since nobody else touches them. What threads' caches
// do with it later leaves no trace, which is what makes them fast.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/no_copy.hpp"
#include "base/status.hpp"
#include "pool/sleep/lone_blocks.hpp"
#include "pool/sleep/sleep_block.hpp"
#include "pool/sleep/sleep_context.hpp"

namespace gpupool::internal {

/// How much more the device is to get back.
inline uint64_t missing(const SleepOptions& options, const gpupool_sleep_result_t& result) noexcept {
  return options.target - std::min(options.target, result.released_bytes - result.retained_bytes);
}

/// Releases cached memory. A child's may belong to a graph, so it stays. Call it without the lock.
Status release_idle(SleepContext& in, uint64_t bytes, gpupool_sleep_result_t& result);

/// Lives for one call, under the pool's lock, which it gives up for hooks, copies and waits. The thread has
/// the Sleeper's turn, and the pool is awake.
class TargetSleep : NoCopy {
 public:
  using Result = gpupool_sleep_result_t;

  TargetSleep(SleepContext& in, PoolLock& lock, const SleepOptions& options) noexcept
      : in_(in), lock_(lock), options_(options), block_(in, lock, options) {}

  Status run(Result& result);

 private:
  /// A block that could go.
  struct Candidate {
    Address address = 0;
    uint64_t bytes = 0;  // in chunks wholly inside it
    bool is_saved = false;
    uint64_t taken = 0;  // when it was handed out, or woken
  };

  Status reach(LoneBlocks::Watch& watch, Result& result);
  std::vector<Candidate> find_candidates() const;
  bool may_go(Address address) const noexcept;
  bool has_agreed(Address address);
  Status sleep_candidates(const std::vector<Candidate>& blocks, Result& result);
  Status sleep_candidate(Address address, Result& result);
  Status prepare_for(const std::vector<Candidate>& blocks);

  SleepContext& in_;
  PoolLock& lock_;
  const SleepOptions& options_;
  BlockSleep block_;
};

}  // namespace gpupool::internal
