// SPDX-License-Identifier: Apache-2.0
// One thread at a time sleeps, wakes or prepares a pool.
#pragma once

#include "pool/sleeper.hpp"

namespace gpupool::internal {

class Sleeper::Turn {
 public:
  /// The caller holds the lock now, and when the turn ends.
  Turn(Sleeper& sleeper, Lock& lock) : sleeper_(sleeper), lock_(lock) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn();

  /// Waits for its turn. UNAVAILABLE if this thread has it already.
  Status begin();

 private:
  Sleeper& sleeper_;
  Lock& lock_;
  bool has_it_ = false;
};

}  // namespace gpupool::internal
