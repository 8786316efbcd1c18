// SPDX-License-Identifier: Apache-2.0
// Pools that give back what they have cached once they have handed nothing out for a while.
//
// A malloc that a thread's cache serves looks at no clock and tells nobody. So calls that take a pool's lock
// anyway also look whether any pool of the process has become idle, a few times a second; a thread of the
// library's own does, where that is asked for. A pool counts as idle since its last malloc of which the time
// is known: one that took the long way, or whatever caches served before much was freed to them. Mallocs
// that only a count tells of were made at the last look at the earliest, and count as made then: else the
// first look after a quiet hour would take them for new.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/no_copy.hpp"

namespace gpupool::internal {

class Device;
struct PoolState;

/// Of one pool; guarded by its lock, except where it says otherwise.
class Idle : NoCopy {
 public:
  explicit Idle(PoolState& pool) noexcept : pool_(pool) {}

  /// The time begins anew: a malloc is made, or nothing more can be released now. Needs no lock, and costs
  /// nothing where the pool has no idle time.
  void begin_anew() noexcept;
  /// Mallocs that caches have served since the last look or call, if any, are as good as made now.
  void note_cached() noexcept;
  /// Whether the pool has memory, and has handed none out for as long as its options say.
  bool is_due() noexcept;

 private:
  uint64_t mallocs() const noexcept;
  bool find_new(uint64_t now) noexcept;

  PoolState& pool_;
  uint64_t mallocs_ = 0;             // that were counted at the last look
  uint64_t looked_ = 0;              // when that was, by the device's clock
  std::atomic<uint64_t> since_ = 0;  // the last malloc was made then or a little later
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
