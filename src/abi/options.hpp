// SPDX-License-Identifier: Apache-2.0
// What a caller and the environment ask for, read and checked. Each throws std::bad_alloc, but the watching.
#pragma once

#include <memory>

#include "core/budget.hpp"
#include "device/device.hpp"
#include "pool/pool.hpp"
#include "pool/rules/options.hpp"
#include "pool/sleep/sleep_options.hpp"

namespace gpupool::internal::abi {

/// Checks a whole configuration and opens its device.
Status open_device(const gpupool_config_t& config, std::unique_ptr<Device>& device, PoolOptions& options);

/// The smallest of GPUPOOL_LIMIT, GPUPOOL_FRACTION and GPUPOOL_CAP, as they are now, for memory of this kind:
/// page-locked memory is the host's, and has no ceiling. INVALID_ARGUMENT: one of them is nonsense.
Status find_ceiling(const DeviceInfo& device, Kind kind, Ceiling& ceiling);

/// Makes a new pool share with other processes, if requested. If the region cannot be used, the pool runs
/// alone, with one message on standard error. INVALID_ARGUMENT, UNSUPPORTED: the request makes no sense;
/// OVER_LIMIT: the guarantee.
Status share_pool(const gpupool_config_t& config, Pool& pool);

/// Checks a caller's options; null: all defaults. Only `takes_target` lets them have a target.
Status read_sleep_options(const gpupool_sleep_options_t* in, bool takes_target, SleepOptions& options);

/// Reads GPUPOOL_SAMPLE, GPUPOOL_STATS, GPUPOOL_RECORD and GPUPOOL_CONTROL when the process creates its first
/// pool. Reports errors in them once on standard error.
void watch_from_environment() noexcept;

/// Takes commands of other processes from now on, if GPUPOOL_CONTROL says so.
Status control_from_environment();

}  // namespace gpupool::internal::abi
