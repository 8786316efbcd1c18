// SPDX-License-Identifier: Apache-2.0
// Large page-locked memory. The driver's own malloc of it clears and locks page by page, at 1 to 2 GiB a
// second whoever else does so beside it; memory that is there already is locked at 25 to 45, and several
// threads can each prepare a piece.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>

#include "device/cuda/api.hpp"
#include "device/device.hpp"

namespace gpupool::internal {

/// Thread-safe. Calls come within a scope of the context.
class HostPages {
 public:
  /// Below this, the driver's own malloc is as good.
  static constexpr uint64_t kLeast = uint64_t{32} << 20;

  explicit HostPages(const CudaDriver& driver) noexcept : driver_(driver) {}

  /// False: it cannot be had so, and the driver's own malloc must say why.
  bool allocate(uint64_t size, Address& address);
  /// Waits for the context's work, as the driver's own free does. False: it is not from here.
  bool deallocate(Address address, uint64_t size, cuda::CUresult& result);

 private:
  const CudaDriver& driver_;
  std::mutex mutex_;
  std::set<Address> taken_;
};

}  // namespace gpupool::internal
