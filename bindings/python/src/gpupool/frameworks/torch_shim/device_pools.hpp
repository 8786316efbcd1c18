// SPDX-License-Identifier: Apache-2.0
// The pools that hold PyTorch's memory: the default pool of each device, from the device's first use on.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>
#include <gpupool/gpupool.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace gpupool_torch {

using c10::DeviceIndex;

/// This thread's last failure in words.
inline std::string last_error() {
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  (void)gpupool_last_error(&error);
  return error.message;
}

inline gpupool_stats_t stats_of(gpupool_t* pool) {
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  (void)gpupool_stats(pool, &stats);
  return stats;
}

class DevicePools {
 public:
  /// prepare is called once for each device, before the first block of its pool is handed out.
  explicit DevicePools(std::function<void(DeviceIndex, gpupool_t*)> prepare) : prepare_(std::move(prepare)) {}

  /// Null before the device's first use, and for a device that cannot exist.
  gpupool_t* find(int device) const {
    return device >= 0 && device < kDevices ? pools_[static_cast<size_t>(device)].load() : nullptr;
  }

  /// Null if there can be no pool; gpupool_last_error tells why.
  gpupool_t* use(DeviceIndex device) {
    if (gpupool_t* pool = find(device)) return pool;
    gpupool_t* pool = nullptr;
    if (gpupool_default_pool(device, &pool) != GPUPOOL_SUCCESS) return nullptr;
    const std::lock_guard lock(mutex_);
    if (gpupool_t* known = find(device)) return known;
    prepare_(device, pool);
    pools_[static_cast<size_t>(device)].store(pool);
    return pool;
  }

  /// The pool that a pointer's block is in, and the block; null if there is none.
  gpupool_t* owner_of(const void* ptr, gpupool_block_t& block) const {
    for (int device = 0; device < kDevices; ++device) {
      gpupool_t* pool = find(device);
      if (pool != nullptr && gpupool_block_info(pool, reinterpret_cast<uintptr_t>(ptr), &block,
                                                sizeof block) == GPUPOOL_SUCCESS) {
        return pool;
      }
    }
    return nullptr;
  }

  void empty() const {
    for (int device = 0; device < kDevices; ++device) {
      if (gpupool_t* pool = find(device)) (void)gpupool_empty(pool, nullptr);
    }
  }

  std::mutex& mutex() { return mutex_; }

 private:
  static constexpr int kDevices = 64;

  std::array<std::atomic<gpupool_t*>, kDevices> pools_{};
  std::mutex mutex_;
  std::function<void(DeviceIndex, gpupool_t*)> prepare_;
};

}  // namespace gpupool_torch
