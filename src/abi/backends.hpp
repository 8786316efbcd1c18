// SPDX-License-Identifier: Apache-2.0
// The backends, in one table: the only place that knows all of them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "device/device.hpp"

namespace gpupool::internal::abi {

/// No backend has higher device numbers.
inline constexpr size_t kMaxDevices = 64;

/// What AUTO means in this process: GPUPOOL_BACKEND, else the first of the table that has a usable device.
/// Other values are checked and returned as they are.
Status resolve_backend(int32_t wanted, gpupool_backend_t& backend);

/// NULL for a number that is no backend of the table.
const char* backend_name(int32_t backend) noexcept;

/// GPUPOOL_FEATURE_* of the backends that have a usable device.
uint64_t usable_features();

/// Reads "cuda", "cuda:1", "sim", "sim:3", "auto" or "2" into a backend and a device's number.
Status parse_device(std::string_view text, gpupool_backend_t& backend, int32_t& ordinal);

/// Of a backend that resolve_backend() has given.
Status count_devices(gpupool_backend_t backend, int32_t& count);

/// Opens a device of such a backend. What is mapped through it is accessible to `peers` too.
Status open_backend(gpupool_backend_t backend, int32_t ordinal, std::span<const int32_t> peers,
                    std::unique_ptr<Device>& device);

}  // namespace gpupool::internal::abi
