// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/spare_events.hpp"

namespace gpupool::internal {

Status SpareEvents::take(cuda::CUevent& event) {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      event = spare_.back();
      spare_.pop_back();
      return kSuccess;
    }
    if (spare_.capacity() <= count_) spare_.reserve(2 * count_ + 16);
    ++count_;
  }
  const cuda::CUresult result = driver_.cuEventCreate(&event, cuda::CU_EVENT_DISABLE_TIMING);
  if (result == cuda::CUDA_SUCCESS) return kSuccess;
  const std::lock_guard lock(mutex_);
  --count_;
  return cuda_failed(result, "cuEventCreate");
}

void SpareEvents::keep(cuda::CUevent event) noexcept {
  const std::lock_guard lock(mutex_);
  spare_.push_back(event);
}

void SpareEvents::destroy_all() noexcept {
  const std::lock_guard lock(mutex_);
  for (const cuda::CUevent event : spare_) driver_.cuEventDestroy_v2(event);
  spare_.clear();
}

}  // namespace gpupool::internal
