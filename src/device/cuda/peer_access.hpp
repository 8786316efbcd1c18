// SPDX-License-Identifier: Apache-2.0
// Which devices may access the memory of one, and how much.
#pragma once

#include <mutex>
#include <vector>

#include "base/no_copy.hpp"
#include "device/cuda/api.hpp"
#include "device/device.hpp"

namespace gpupool::internal {

/// Whether `peer` may access the memory of `device`; the device itself may.
Status check_peer(const CudaDriver& driver, cuda::CUdevice device, cuda::CUdevice peer);

/// The device itself, and the peers that it ever had. What calls the driver wants a CudaScope around it.
class PeerAccess : NoCopy {
 public:
  PeerAccess(const CudaDriver& driver, cuda::CUdevice device, const std::vector<cuda::CUdevice>& peers);

  /// See Device::add_peer; chunks that are mapped stay as they are.
  Status add(cuda::CUdevice peer);
  void remove(cuda::CUdevice peer) noexcept;

  /// Gives all of them this access to a mapping, and removed peers none.
  Status set_access(Address address, uint64_t size, Permission access);
  /// Memory from the driver's malloc is accessible to contexts, not, as chunks are, to devices. Here that
  /// means the peers' primary contexts, which are retained for ever.
  Status enable(cuda::CUcontext context);

 private:
  Status enable_one(cuda::CUdevice peer, cuda::CUcontext context);

  const CudaDriver& driver_;
  // Held across driver calls only by the first allocation after a peer was added, which no other may
  // overtake.
  std::mutex mutex_;
  std::vector<cuda::CUmemAccessDesc> access_;  // the device's own first
  size_t enabled_ = 1;                         // how many of them can access memory from cuMemAlloc
};

}  // namespace gpupool::internal
