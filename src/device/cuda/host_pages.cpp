// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/host_pages.hpp"

#include <utility>

#include "os/pages.hpp"

namespace gpupool::internal {

bool HostPages::allocate(uint64_t size, Address& address) {
  if (size < kLeast) return false;
  std::set<Address> one{0};  // nothing may fail once the pages are registered
  auto node = one.extract(one.begin());
  void* const pages = os::map_pages(size);
  if (pages == nullptr) return false;
  if (driver_.cuMemHostRegister_v2(pages, size,
                                   cuda::kMemHostRegisterPortable | cuda::kMemHostRegisterDeviceMap) !=
      cuda::CUDA_SUCCESS) {
    os::unmap_pages(pages, size);
    return false;
  }
  address = node.value() = reinterpret_cast<uintptr_t>(pages);
  const std::lock_guard lock(mutex_);
  taken_.insert(std::move(node));
  return true;
}

bool HostPages::deallocate(Address address, uint64_t size, cuda::CUresult& result) {
  {
    const std::lock_guard lock(mutex_);
    if (!taken_.contains(address)) return false;
  }
  void* const pages = reinterpret_cast<void*>(address);
  result = driver_.cuMemHostUnregister(pages);
  if (result != cuda::CUDA_SUCCESS) return true;
  {
    const std::lock_guard lock(mutex_);  // before the address can be had again
    taken_.erase(address);
  }
  os::unmap_pages(pages, size);
  return true;
}

}  // namespace gpupool::internal
