// SPDX-License-Identifier: Apache-2.0
// Looks at memory by a kernel, for debug modes canary and quarantine.
#pragma once

#include <span>

#include "base/no_copy.hpp"
#include "device/cuda/api.hpp"
#include "device/device.hpp"

namespace gpupool::internal {

/// Call its functions inside a CudaScope.
class CudaInspection : NoCopy {
 public:
  explicit CudaInspection(const CudaDriver& driver) noexcept : driver_(driver) {}

  /// Has the driver compile the kernel, once.
  Status load();
  /// See Device::inspect.
  Status launch(std::span<const Look> looks, Address report, cuda::CUstream stream);
  void unload() noexcept;

 private:
  const CudaDriver& driver_;
  cuda::CUmodule module_ = nullptr;
  cuda::CUfunction kernel_ = nullptr;
};

}  // namespace gpupool::internal
