// SPDX-License-Identifier: Apache-2.0
#include "device/sim/capacity.hpp"

#include <algorithm>

#include "device/sim/clock.hpp"

namespace gpupool::internal {
namespace {

using Long = unsigned long long;  // for printf

}  // namespace

uint64_t SimCapacity::free() const noexcept {
  const uint64_t used = shared_ == nullptr ? used_ : std::max(used_, shared_->used());
  return device_ - std::min(device_, used);
}

Status SimCapacity::charge(uint64_t size) {
  if (size <= device_ - used_ && (shared_ == nullptr || shared_->charge(size, device_))) {
    used_ += size;
    return kSuccess;
  }
  return fail_driver(GPUPOOL_ERROR_OUT_OF_MEMORY, driver_code::kOutOfMemory,
                     "simulated device: %llu bytes wanted, %llu of %llu free", Long{size}, Long{free()},
                     Long{device_});
}

Status SimCapacity::pin(uint64_t size) {
  if (is_integrated_) return charge(size);
  if (size > host_free()) {
    return fail_driver(GPUPOOL_ERROR_OUT_OF_MEMORY, driver_code::kOutOfMemory,
                       "simulated device: %llu bytes of the host wanted, %llu can be page-locked", Long{size},
                       Long{host_free()});
  }
  pinned_ += size;
  return kSuccess;
}

void SimCapacity::unpin(uint64_t size) noexcept {
  if (is_integrated_) {
    refund(size);
  } else {
    pinned_ -= size;
  }
}

void SimCapacity::refund(uint64_t size) noexcept {
  used_ -= size;
  if (shared_ != nullptr) shared_->refund(size);
}

}  // namespace gpupool::internal
