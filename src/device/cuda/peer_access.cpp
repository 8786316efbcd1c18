// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/peer_access.hpp"

#include <algorithm>
#include <cinttypes>

#include "device/cuda/primary_context.hpp"
#include "device/cuda/scope.hpp"

namespace gpupool::internal {
namespace {

using cuda::CUDA_SUCCESS;
using cuda::CUresult;

cuda::CUmemAccessDesc write_access(cuda::CUdevice device) {
  return {{cuda::CU_MEM_LOCATION_TYPE_DEVICE, device}, cuda::CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

}  // namespace

PeerAccess::PeerAccess(const CudaDriver& driver, cuda::CUdevice device,
                       const std::vector<cuda::CUdevice>& peers)
    : driver_(driver) {
  access_.push_back(write_access(device));
  for (const cuda::CUdevice peer : peers) access_.push_back(write_access(peer));
}

Status PeerAccess::add(cuda::CUdevice peer) {
  if (const Status status = check_peer(driver_, access_.front().location.id, peer); status != kSuccess)
    return status;
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(access_, peer, [](const auto& each) { return each.location.id; });
  if (known != access_.end()) {
    known->flags = cuda::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  } else {
    access_.push_back(write_access(peer));
  }
  return kSuccess;
}

void PeerAccess::remove(cuda::CUdevice peer) noexcept {
  const std::lock_guard lock(mutex_);
  for (cuda::CUmemAccessDesc& each : access_) {
    if (each.location.id == peer) each.flags = cuda::CU_MEM_ACCESS_FLAGS_PROT_NONE;
  }
}

Status PeerAccess::set_access(Address address, uint64_t size, Permission access) {
  const std::lock_guard lock(mutex_);
  const auto set = [&](const std::vector<cuda::CUmemAccessDesc>& wanted) {
    const CUresult result = driver_.cuMemSetAccess(address, size, wanted.data(), wanted.size());
    if (result == CUDA_SUCCESS) return kSuccess;
    return cuda_status(result, "cuMemSetAccess(address 0x%" PRIx64 ", size %" PRIu64 ", %s for %zu devices)",
                       address, size, access == Permission::write ? "all" : "less", wanted.size());
  };
  if (access == Permission::write) return set(access_);
  std::vector<cuda::CUmemAccessDesc> less = access_;
  for (cuda::CUmemAccessDesc& each : less) {
    if (each.flags == cuda::CU_MEM_ACCESS_FLAGS_PROT_NONE) continue;
    each.flags = access == Permission::read ? cuda::CU_MEM_ACCESS_FLAGS_PROT_READ
                                            : cuda::CU_MEM_ACCESS_FLAGS_PROT_NONE;
  }
  return set(less);
}

Status PeerAccess::enable(cuda::CUcontext context) {
  const std::lock_guard lock(mutex_);
  for (; enabled_ < access_.size(); ++enabled_) {
    if (const Status status = enable_one(access_[enabled_].location.id, context); status != kSuccess)
      return status;
  }
  return kSuccess;
}

Status PeerAccess::enable_one(cuda::CUdevice peer, cuda::CUcontext context) {
  cuda::CUcontext peer_context = nullptr;
  if (const Status status = retain_primary(driver_, peer, peer_context); status != kSuccess) return status;
  const CudaScope scope(driver_, peer_context, CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuCtxEnablePeerAccess(context, 0);
  if (result == CUDA_SUCCESS || result == cuda::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) return kSuccess;
  return cuda_status(result, "cuCtxEnablePeerAccess(of device %d, for device %d)",
                     access_.front().location.id, peer);
}

}  // namespace gpupool::internal
