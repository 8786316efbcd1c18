// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/spare_events.hpp"

namespace gpupool::internal {

Status SpareEvents::take(uint64_t context, cuda::CUevent& event) {
  const std::lock_guard lock(mutex_);
  const bool is_foreign = context != 0;
  if (!is_foreign && !spare_.empty()) {
    event = spare_.back();
    spare_.pop_back();
    return kSuccess;
  }
  if (is_foreign) {
    foreign_.reserve(foreign_.size() + 1);
    has_foreign_.store(true, std::memory_order_relaxed);
  }
  if (!is_foreign && spare_.capacity() <= count_) spare_.reserve(2 * count_ + 16);
  const cuda::CUresult result = driver_.cuEventCreate(&event, cuda::CU_EVENT_DISABLE_TIMING);
  if (result != cuda::CUDA_SUCCESS) return cuda_status(result, "cuEventCreate");
  if (is_foreign) {
    foreign_.emplace(event, context);
  } else {
    ++count_;
  }
  return kSuccess;
}

void SpareEvents::keep(cuda::CUevent event) noexcept {
  const bool ended = has_ended(event);
  const std::lock_guard lock(mutex_);
  if (!foreign_.empty() && foreign_.erase(event) != 0) {
    if (!ended) (void)driver_.cuEventDestroy_v2(event);
  } else {
    spare_.push_back(event);
  }
}

bool SpareEvents::has_ended(cuda::CUevent event) noexcept {
  if (!has_foreign_.load(std::memory_order_relaxed)) return false;
  uint64_t context = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = foreign_.find(event);
    if (found == foreign_.end()) return false;
    context = found->second;
  }
  return contexts_.find(context) == nullptr;
}

void SpareEvents::destroy_all() noexcept {
  const std::lock_guard lock(mutex_);
  for (const cuda::CUevent event : spare_) driver_.cuEventDestroy_v2(event);
  spare_.clear();
}

}  // namespace gpupool::internal
