// SPDX-License-Identifier: Apache-2.0
// Turns a configuration into a device: the only place that knows all backends.
#pragma once

#include <memory>

#include "device/device.hpp"
#include "pool/pool.hpp"

namespace gpupool::internal::abi {

/// No backend has higher device numbers.
inline constexpr size_t kMaxDevices = 64;

/// What AUTO means in this process: GPUPOOL_BACKEND, else CUDA if there is a usable GPU, else the simulated
/// device. Other values are checked and returned as they are.
Status resolve_backend(int32_t wanted, gpupool_backend_t& backend);

Status count_devices(gpupool_backend_t backend, int32_t& count);

/// Checks a whole configuration and opens its device.
Status open_device(const gpupool_config_t& config, std::unique_ptr<Device>& device, Pool::Options& options);

/// Opens a device without a pool's configuration, to inspect it.
Status open_plain(gpupool_backend_t backend, int32_t ordinal, std::unique_ptr<Device>& device);

}  // namespace gpupool::internal::abi
