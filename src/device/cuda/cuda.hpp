// SPDX-License-Identifier: Apache-2.0
// The CUDA device: the driver's functions, loaded from libcuda.so.1 at run time.
#pragma once

#include <memory>
#include <span>

#include "device/device.hpp"

namespace gpupool::internal {

/// Counts CUDA devices. UNAVAILABLE, with the reason, if the driver or a GPU is missing.
Status cuda_device_count(int32_t& count);

/// Opens CUDA device number `ordinal`, in the caller's current context if that belongs to the device, else
/// in its primary context (retained for ever). Memory mapped through the result is accessible to `peers` too.
/// INVALID_ARGUMENT for a number that does not exist; UNSUPPORTED for peers that cannot access it.
Status open_cuda(int32_t ordinal, std::span<const int32_t> peers, std::unique_ptr<Device>& device);

/// In the child after fork: from now on every CUDA call gives FORKED if the parent had initialised the
/// driver.
void cuda_after_fork() noexcept;

}  // namespace gpupool::internal
