// SPDX-License-Identifier: Apache-2.0
// Events of the driver that wait to be used again, since it takes long to create one.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "device/cuda/api.hpp"

namespace gpupool::internal {

class SpareEvents {
 public:
  explicit SpareEvents(const CudaDriver& driver) noexcept : driver_(driver) {}
  SpareEvents(const SpareEvents&) = delete;
  SpareEvents& operator=(const SpareEvents&) = delete;

  // Call these inside a CudaScope.

  /// Gives a spare event, or a new one, of the current context; 0: the device's own. Throws std::bad_alloc.
  Status take(uint64_t context, cuda::CUevent& event);
  void destroy_all() noexcept;

  /// Events of other contexts, of which there are few, do not wait to be used again.
  void keep(cuda::CUevent event) noexcept;

 private:
  const CudaDriver& driver_;
  std::mutex mutex_;
  std::vector<cuda::CUevent> spare_;  // has room for all that exist
  size_t count_ = 0;                  // of those
  std::unordered_set<cuda::CUevent> foreign_;
};

}  // namespace gpupool::internal
