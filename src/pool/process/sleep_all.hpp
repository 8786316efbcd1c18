// SPDX-License-Identifier: Apache-2.0
// Sleeps and wakes of several pools: all of them, or none. These add to `result`. They throw std::bad_alloc.
#pragma once

#include <memory>
#include <vector>

#include "base/status.hpp"
#include "gpupool/gpupool.h"
#include "pool/sleep/sleep_options.hpp"

namespace gpupool::internal {

class Pool;

/// What the functions of gpupool.h with these names do.
Status sleep_tag(const char* tag, const SleepOptions& options, gpupool_sleep_result_t& result);
Status wake_tag(const char* tag, const SleepOptions& options, gpupool_sleep_result_t& result);
/// The same for the given pools.
Status sleep_all(std::vector<std::shared_ptr<Pool>> pools, const SleepOptions& options,
                 gpupool_sleep_result_t& result);
Status wake_all(std::vector<std::shared_ptr<Pool>> pools, const SleepOptions& options,
                gpupool_sleep_result_t& result);

/// Puts pools to sleep that may be, those of lower priority first, then those that have been allowed to
/// longest, until `bytes` have gone back. Returns how many have.
uint64_t sleep_allowed(std::vector<std::shared_ptr<Pool>> pools, uint64_t bytes);

}  // namespace gpupool::internal
