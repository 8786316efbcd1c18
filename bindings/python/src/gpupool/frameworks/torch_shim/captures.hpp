// SPDX-License-Identifier: Apache-2.0
// Captures that may be under way: what PyTorch allocates to a pool of a graph or a MemPool, which it begins
// before the capture and ends after it, and what PyTorch 2.13 and later mark by themselves. PyTorch frees
// from any thread, so the device's pool is told of each, and leaves no events meanwhile on streams that may
// capture.
#pragma once

#include <c10/core/Device.h>
#include <gpupool/gpupool.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "device_pools.hpp"

namespace gpupool_torch {

/// Announces a capture to a pool, and withdraws that when it goes, however its owner ends. Null: to none.
class Announcement {
 public:
  explicit Announcement(gpupool_t* pool)
      : pool_(pool != nullptr && gpupool_announce_capture(pool, 1) == GPUPOOL_SUCCESS ? pool : nullptr) {}
  Announcement(Announcement&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}
  Announcement& operator=(Announcement&& other) noexcept {
    std::swap(pool_, other.pool_);
    return *this;
  }
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;
  ~Announcement() {
    if (pool_ != nullptr) (void)gpupool_announce_capture(pool_, 0);
  }

 private:
  gpupool_t* pool_;
};

/// Those that PyTorch has marked and not yet ended.
class Captures {
 public:
  explicit Captures(DevicePools& devices) : devices_(devices) {}

  /// A stream of the device captures from now on. Called by the thread that began it, so that no pool is made
  /// here.
  void begin(DeviceIndex device) {
    const std::lock_guard lock(mutex_);
    under_way_.emplace_back(device, Announcement(devices_.find(device)));
  }

  /// One of them has ended. Without any, this does nothing.
  void end(DeviceIndex device) {
    const std::lock_guard lock(mutex_);
    const auto found = find(device);
    if (found != under_way_.end()) under_way_.erase(found);
  }

  bool has_any(DeviceIndex device) noexcept {
    const std::lock_guard lock(mutex_);
    return find(device) != under_way_.end();
  }

 private:
  using List = std::vector<std::pair<DeviceIndex, Announcement>>;

  List::iterator find(DeviceIndex device) {
    return std::find_if(under_way_.begin(), under_way_.end(),
                        [&](const auto& each) { return each.first == device; });
  }

  DevicePools& devices_;
  std::mutex mutex_;
  List under_way_;
};

}  // namespace gpupool_torch
