// SPDX-License-Identifier: Apache-2.0
// What the environment says that a pool may hold.
#pragma once

#include "core/budget.hpp"
#include "device/device.hpp"

namespace gpupool::internal::abi {

/// The smallest of GPUPOOL_LIMIT, GPUPOOL_FRACTION and GPUPOOL_CAP, as they are now, for memory of this kind:
/// page-locked memory is the host's, and has no ceiling. INVALID_ARGUMENT: one of them is nonsense.
Status find_ceiling(const DeviceInfo& device, Kind kind, Ceiling& ceiling);

}  // namespace gpupool::internal::abi
