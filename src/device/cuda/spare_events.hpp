// SPDX-License-Identifier: Apache-2.0
// Events of the driver that wait to be used again, since it takes long to create one.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/no_copy.hpp"
#include "device/cuda/other_contexts.hpp"
#include "device/device.hpp"

namespace gpupool::internal {

/// Events of the device's own context have the driver's handles as numbers, which are even. Those of other
/// contexts, of which there are few, have odd numbers of their own, used once: if a context ends, the driver
/// may give their handles to others.
class SpareEvents : NoCopy {
 public:
  SpareEvents(const CudaDriver& driver, OtherContexts& contexts) noexcept
      : driver_(driver), contexts_(contexts) {}

  // Call these inside a CudaScope.

  /// Gives a spare event, or a new one, of the current context, which has this number; 0: the device's own.
  /// Throws std::bad_alloc.
  Status take(uint64_t context, Event& event);
  /// The driver's handle. Null if the event's context has ended, and the event with it.
  cuda::CUevent find(Event event) noexcept;
  void destroy_all() noexcept;

  /// Events of other contexts do not wait to be used again.
  void keep(Event event) noexcept;

 private:
  struct Foreign {
    cuda::CUevent handle = nullptr;
    uint64_t context = 0;
  };

  static bool is_foreign(Event event) noexcept { return (event & 1) != 0; }
  static cuda::CUevent handle_of(Event event) noexcept {
    return reinterpret_cast<cuda::CUevent>(static_cast<uintptr_t>(event));
  }
  Foreign find_foreign(Event event) noexcept;

  const CudaDriver& driver_;
  OtherContexts& contexts_;
  std::mutex mutex_;
  std::vector<Event> spare_;  // has room for all that exist
  size_t count_ = 0;          // of those
  std::unordered_map<Event, Foreign> foreign_;
  Event last_foreign_ = 1;
};

}  // namespace gpupool::internal
