// SPDX-License-Identifier: Apache-2.0
// Whether a pool's memory is there. Whoever hands memory out, moves it or releases it asks here; only sleep
// changes the answer.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <string>
#include <thread>
#include <unordered_map>

#include "base/no_copy.hpp"
#include "base/status.hpp"
#include "core/size.hpp"
#include "gpupool/gpupool.h"
#include "pool/rules/pool_lock.hpp"

namespace gpupool::internal {

class Streams;

/// Guarded by the pool's lock. What is public is for sleep to change.
class Gate : NoCopy {
 public:
  using Lock = PoolLock;

  explicit Gate(Streams& streams) : streams_(streams) {}  // may throw std::bad_alloc

  /// A malloc that may have to wait for a wake. If it had to, the pool does not sleep again before it leaves:
  /// else it might never find the pool awake. For as long as it holds the lock, or gives way to others.
  class WaitingMalloc : NoCopy {
   public:
    explicit WaitingMalloc(Gate& gate) noexcept : gate_(gate) {}
    ~WaitingMalloc() { leave(); }
    Status admit(Lock& lock) { return gate_.is_awake() ? kSuccess : gate_.refuse_or_wait(lock, *this); }
    void leave() noexcept {
      if (has_waited_) gate_.end_wait(*this);
    }

   private:
    friend class Gate;
    Gate& gate_;
    bool has_waited_ = false;
  };

  bool is_awake() const noexcept { return state == GPUPOOL_SLEEP_STATE_AWAKE; }
  /// Call it before handing memory out, and again after giving the lock up. ASLEEP, or waits until awake.
  Status admit(Lock& lock) { return WaitingMalloc(*this).admit(lock); }
  /// Whether a block sleeps alone, or is about to.
  bool is_alone(Address block) const noexcept { return !alone.empty() && alone.contains(block); }

  gpupool_sleep_state_t state = GPUPOOL_SLEEP_STATE_AWAKE;
  uint64_t falls = 0;                   // how often the pool has begun to fall asleep
  std::string name;                     // the pool's, for whoever finds it asleep
  bool holds_mallocs = false;           // they wait for the wake
  std::thread::id owner;                // which sleeps or wakes the pool just now
  std::condition_variable_any changed;  // told of whatever a wake may wait for
  uint32_t waiting = 0;                 // mallocs that wait for the wake, or have
  /// Blocks that sleep alone, or are about to, each with how many records it was promised for its free.
  std::unordered_map<Address, size_t> alone;

 private:
  [[gnu::cold]] Status refuse_or_wait(Lock& lock, WaitingMalloc& malloc);
  void end_wait(WaitingMalloc& malloc) noexcept;

  Streams& streams_;
};

}  // namespace gpupool::internal
