// SPDX-License-Identifier: Apache-2.0
// Time for events, as cheap as the processor allows.
#pragma once

#include <cstdint>
#include <ctime>

#include "os/clock.hpp"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace gpupool::internal {

/// CLOCK_MONOTONIC, or CLOCK_REALTIME.
inline uint64_t clock_ns(clockid_t which = CLOCK_MONOTONIC) noexcept {
  timespec now{};
  clock_gettime(which, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

/// Whether ticks() may read the processor's own counter, because the system itself uses it for time: then it
/// runs evenly and is the same on all cores. Reads a file.
inline bool has_processor_clock() noexcept {
#if defined(__x86_64__)
  return os::trusts_processor_clock();
#else
  return false;
#endif
}

/// Ticks of an even clock that all threads share; code that needs their rate measures it.
inline uint64_t ticks(bool by_processor) noexcept {
#if defined(__x86_64__)
  if (by_processor) return __rdtsc();
#else
  (void)by_processor;
#endif
  return clock_ns();
}

}  // namespace gpupool::internal
