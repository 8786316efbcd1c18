// SPDX-License-Identifier: Apache-2.0
// How much memory a simulated device has, and what of it is left: its own, which other processes may share,
// and the host's that can be page-locked.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/no_copy.hpp"
#include "device/device.hpp"
#include "device/sim/settings.hpp"
#include "device/sim/shared.hpp"

namespace gpupool::internal {

/// Not thread-safe: the device's lock is held.
class SimCapacity : NoCopy {
 public:
  explicit SimCapacity(const SimSettings& settings) noexcept
      : device_(settings.capacity), host_(settings.host), is_integrated_(settings.is_integrated) {}

  /// From now on other processes share the device's memory.
  void share(std::unique_ptr<SimShared> shared) noexcept { shared_ = std::move(shared); }
  /// They are the parent's to share it with.
  void after_fork_in_child() noexcept {
    if (shared_ != nullptr) shared_->forget();
  }

  uint64_t free() const noexcept;
  Status charge(uint64_t size);
  void refund(uint64_t size) noexcept;

  /// Host memory that can still be page-locked.
  uint64_t host_free() const noexcept { return is_integrated_ ? free() : host_ - pinned_; }
  Status pin(uint64_t size);
  void unpin(uint64_t size) noexcept;

 private:
  uint64_t device_;
  uint64_t host_;
  bool is_integrated_;
  uint64_t used_ = 0;
  uint64_t pinned_ = 0;
  std::unique_ptr<SimShared> shared_;  // null: this process has the device to itself
};

}  // namespace gpupool::internal
