// SPDX-License-Identifier: Apache-2.0
// Where a call comes into a pool.
#pragma once

#include "pool/quiet_lock.hpp"
#include "pool/streams.hpp"

namespace gpupool::internal {

class Display;

class Door {
 public:
  Door(WaitedMutex& mutex, Display& display, Streams& streams) noexcept
      : mutex_(mutex), display_(display), streams_(streams) {}

  /// Takes the pool's lock, and begins a new round of questions to the driver. What the call changes is shown
  /// to other processes as it leaves.
  QuietLock enter() {
    QuietLock lock(mutex_, &display_);
    streams_.next_round();
    return lock;
  }
  /// Takes the pool's lock to look at something, or to change what nobody is shown.
  QuietLock look() { return QuietLock(mutex_); }

 private:
  WaitedMutex& mutex_;
  Display& display_;
  Streams& streams_;
};

}  // namespace gpupool::internal
