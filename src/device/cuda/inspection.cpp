// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/inspection.hpp"

#include <algorithm>
#include <cinttypes>

#include "device/cuda/inspection_kernel.hpp"

namespace gpupool::internal {

using cuda::CUDA_SUCCESS;
using cuda::CUresult;

Status CudaInspection::load() {
  if (kernel_ != nullptr) return kSuccess;
  if (module_ == nullptr) {
    const CUresult result = driver_.cuModuleLoadData(&module_, cuda::kInspectionPtx);
    if (result != CUDA_SUCCESS) return cuda_status(result, "cuModuleLoadData");
  }
  return cuda_status(driver_.cuModuleGetFunction(&kernel_, module_, cuda::kInspectionName),
                     "cuModuleGetFunction(%s)", cuda::kInspectionName);
}

Status CudaInspection::launch(std::span<const Look> looks, Address report, cuda::CUstream stream) {
  cuda::InspectionTask task;
  task.report = report;
  std::copy(looks.begin(), looks.end(), task.looks);
  void* parameters[] = {&task};
  return cuda_status(driver_.cuLaunchKernel(kernel_, 1, 1, 1, cuda::inspection_threads(looks.size()), 1, 1, 0,
                                            stream, parameters, nullptr),
                     "cuLaunchKernel(%s, stream 0x%" PRIxPTR ")", cuda::kInspectionName,
                     reinterpret_cast<uintptr_t>(stream));
}

void CudaInspection::unload() noexcept {
  if (module_ != nullptr) driver_.cuModuleUnload(module_);
}

}  // namespace gpupool::internal
