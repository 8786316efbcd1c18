// SPDX-License-Identifier: Apache-2.0
// Turns a configuration into a device and a pool's options.
#pragma once

#include <memory>

#include "device/device.hpp"
#include "pool/rules/options.hpp"

namespace gpupool::internal::abi {

/// Checks a whole configuration and opens its device.
Status open_device(const gpupool_config_t& config, std::unique_ptr<Device>& device, PoolOptions& options);

}  // namespace gpupool::internal::abi
