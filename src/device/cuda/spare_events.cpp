// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/spare_events.hpp"

namespace gpupool::internal {

Status SpareEvents::take(uint64_t context, Event& event) {
  const std::lock_guard lock(mutex_);
  const bool is_own = context == 0;
  if (is_own && !spare_.empty()) {
    event = spare_.back();
    spare_.pop_back();
    return kSuccess;
  }
  if (is_own && spare_.capacity() <= count_) spare_.reserve(2 * count_ + 16);
  if (!is_own) foreign_.reserve(foreign_.size() + 1);
  cuda::CUevent handle = nullptr;
  const Status status =
      cuda_status(driver_.cuEventCreate(&handle, cuda::CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  if (status != kSuccess) return status;
  if (is_own) {
    ++count_;
    event = reinterpret_cast<uintptr_t>(handle);
  } else {
    event = last_foreign_ += 2;
    foreign_.emplace(event, Foreign{handle, context});
  }
  return kSuccess;
}

SpareEvents::Foreign SpareEvents::find_foreign(Event event) noexcept {
  const std::lock_guard lock(mutex_);
  return foreign_.find(event)->second;
}

cuda::CUevent SpareEvents::find(Event event) noexcept {
  if (!is_foreign(event)) return handle_of(event);
  const Foreign found = find_foreign(event);
  return contexts_.find(found.context) != nullptr ? found.handle : nullptr;
}

void SpareEvents::keep(Event event) noexcept {
  if (is_foreign(event)) {
    if (const cuda::CUevent handle = find(event); handle != nullptr) (void)driver_.cuEventDestroy_v2(handle);
  }
  const std::lock_guard lock(mutex_);
  if (is_foreign(event)) {
    foreign_.erase(event);
  } else {
    spare_.push_back(event);
  }
}

void SpareEvents::destroy_all() noexcept {
  const std::lock_guard lock(mutex_);
  for (const Event event : spare_) driver_.cuEventDestroy_v2(handle_of(event));
  spare_.clear();
}

}  // namespace gpupool::internal
