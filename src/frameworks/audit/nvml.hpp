// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpupool::audit {

/// What the process has on a device of CUDA's, its context and modules too; UINT64_MAX: NVML does not say, as
/// in a container that has process numbers of its own.
uint64_t bytes_by_nvml(int device) noexcept;
/// On all GPUs, which needs no driver.
uint64_t bytes_by_nvml() noexcept;

}  // namespace gpupool::audit
