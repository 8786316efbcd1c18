// SPDX-License-Identifier: Apache-2.0
// What sleeps and wakes of all kinds do with their results.
#pragma once

#include <new>

#include "base/status.hpp"
#include "gpupool/gpupool.h"

namespace gpupool::internal {

/// A lack of memory, too, is a status, so that what was begun is undone.
template <typename Function>
Status without_throwing(Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "the host has no memory for the pool's records");
  }
}

inline void add_to(gpupool_sleep_result_t& sum, const gpupool_sleep_result_t& more) noexcept {
  sum.released_bytes += more.released_bytes;
  sum.saved_bytes += more.saved_bytes;
  sum.dropped_bytes += more.dropped_bytes;
  sum.retained_bytes += more.retained_bytes;
  sum.created_bytes += more.created_bytes;
  sum.nanoseconds += more.nanoseconds;
}

}  // namespace gpupool::internal
