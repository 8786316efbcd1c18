// SPDX-License-Identifier: Apache-2.0
// Events of the driver that wait to be used again, since it takes long to create one.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device/cuda/other_contexts.hpp"

namespace gpupool::internal {

class SpareEvents {
 public:
  SpareEvents(const CudaDriver& driver, OtherContexts& contexts) noexcept
      : driver_(driver), contexts_(contexts) {}
  SpareEvents(const SpareEvents&) = delete;
  SpareEvents& operator=(const SpareEvents&) = delete;

  // Call these inside a CudaScope.

  /// Gives a spare event, or a new one, of the current context, which has this number; 0: the device's own.
  /// Throws std::bad_alloc.
  Status take(uint64_t context, cuda::CUevent& event);
  void destroy_all() noexcept;

  /// Events of other contexts, of which there are few, do not wait to be used again.
  void keep(cuda::CUevent event) noexcept;

  /// Whether the event's context has ended, and the event with it: the driver must not see it again.
  bool has_ended(cuda::CUevent event) noexcept;

 private:
  const CudaDriver& driver_;
  OtherContexts& contexts_;
  std::mutex mutex_;
  std::vector<cuda::CUevent> spare_;                     // has room for all that exist
  size_t count_ = 0;                                     // of those
  std::unordered_map<cuda::CUevent, uint64_t> foreign_;  // with their contexts' numbers
  std::atomic<bool> has_foreign_{false};                 // ever
};

}  // namespace gpupool::internal
