// SPDX-License-Identifier: Apache-2.0
// Pools that give back what they have cached once they have handed nothing out for a while.
//
// A malloc that a thread's cache serves looks at no clock and tells nobody. So calls that take a pool's lock
// anyway also look whether any pool of the process has become idle, a few times a second; a thread of the
// library's own does, where that is asked for. A pool counts as idle since the look that found no new malloc.
#pragma once

#include <cstdint>

namespace gpupool::internal {

class Device;
struct PoolState;

/// Of one pool; guarded by its lock.
class Idle {
 public:
  explicit Idle(PoolState& pool) noexcept : pool_(pool) {}
  Idle(const Idle&) = delete;
  Idle& operator=(const Idle&) = delete;

  /// Whether the pool has memory, and has handed none out for as long as its options say.
  bool is_due() noexcept;
  /// Nothing more can be released now: the time begins anew.
  void begin_anew() noexcept;

 private:
  uint64_t mallocs() const noexcept;

  PoolState& pool_;
  uint64_t mallocs_ = 0;  // at the last look
  uint64_t since_ = 0;    // the device's time when they had last changed
};

/// A look locks each cache of each pool once.
inline constexpr uint64_t kLookEvery = 100'000'000;  // ns

/// Has the pools of the process that have become idle release some of their memory.
using LookForIdle = void (*)() noexcept;
/// There is a pool now that wants such looks.
void expect_idle_pools(LookForIdle look) noexcept;

/// Call it with no lock held. Looks if the last time is long enough ago by this device's clock. One relaxed
/// load where no pool wants it.
void look_for_idle_pools(Device& clock) noexcept;

}  // namespace gpupool::internal
