// SPDX-License-Identifier: Apache-2.0
// What a gpupool_t* points to. Handles are never freed or reused (64 bytes a pool), so that a call with a
// handle that was destroyed finds out instead of crashing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "gpupool/gpupool.h"
#include "pool/memory/pool_state.hpp"

namespace gpupool::internal {

class Pool;

}  // namespace gpupool::internal

struct alignas(64) gpupool_t {
  /// Set to this copy of the library, so that a pool of another copy is told apart.
  const void* copy = nullptr;
  std::atomic<gpupool::internal::Life> life{gpupool::internal::Life::live};
  bool is_default = false;
  uint64_t id = 0;                                 // from 1, never reused
  gpupool::internal::Pool* pool = nullptr;         // for the hot path; null once gone
  std::shared_ptr<gpupool::internal::Pool> owner;  // guarded by the registry's lock
  gpupool_t* live_prev = nullptr;                  // in the registry's list
  gpupool_t* live_next = nullptr;
};
