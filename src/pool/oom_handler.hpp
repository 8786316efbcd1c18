// SPDX-License-Identifier: Apache-2.0
// The caller's function that may free memory for a malloc that would fail.
#pragma once

#include <cstdint>

#include "gpupool/gpupool.h"

namespace gpupool::internal {

class QuietLock;
struct Rooms;

/// Guarded by the pool's lock.
class OomHandler {
 public:
  /// The handle may still be set.
  OomHandler(gpupool_t* const& pool, const Rooms& rooms) noexcept : pool_(pool), rooms_(rooms) {}
  OomHandler(const OomHandler&) = delete;
  OomHandler& operator=(const OomHandler&) = delete;

  void set(gpupool_oom_fn_t fn, void* user) noexcept {
    fn_ = fn;
    user_ = user;
  }
  /// Calls it with the lock given up. True if the malloc shall be tried again.
  bool ask(QuietLock& lock, uint64_t bytes, uint32_t attempt);

 private:
  gpupool_t* const& pool_;
  const Rooms& rooms_;
  gpupool_oom_fn_t fn_ = nullptr;
  void* user_ = nullptr;
};

}  // namespace gpupool::internal
