// SPDX-License-Identifier: Apache-2.0
// The stand-in driver: its own malloc, of the device, of the host and managed.
#include <sys/mman.h>

#include <algorithm>

#include "fake_state.hpp"

using namespace fake;

namespace {

CUresult allocate(Source source, size_t size, uint64_t& address) {
  State& driver = state();
  const int number = current_context()->device;
  DeviceState& device = driver.devices[number];
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t charged = source == Source::device ? size : 0;
  if (charged > device.capacity - std::min(device.capacity, device.used)) return CUDA_ERROR_OUT_OF_MEMORY;
  void* memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  device.used += charged;
  address = reinterpret_cast<uint64_t>(memory);
  driver.allocations[address] = {source, current_context(), size};
  return CUDA_SUCCESS;
}

CUresult deallocate(bool host, uint64_t address) {
  State& driver = state();
  const auto found = driver.allocations.find(address);
  if (found == driver.allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  const Allocation& allocation = found->second;
  if ((allocation.source == Source::host) != host) return CUDA_ERROR_INVALID_VALUE;
  if (allocation.source == Source::device) driver.devices[allocation.context->device].used -= allocation.size;
  munmap(to_memory(address), allocation.size);
  driver.allocations.erase(found);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t size) {
  FAKE_SHOWN(cuMemAlloc_v2, address, size);
  FAKE_CALL(kContext | kNoCapture);
  uint64_t allocated = 0;
  const CUresult result = allocate(Source::device, size, allocated);
  if (result == CUDA_SUCCESS) *address = allocated;
  return shown.says(result);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                            unsigned element) {
  FAKE_SHOWN(cuMemAllocPitch_v2, address, pitch, width, height, element);
  FAKE_CALL(kContext | kNoCapture);
  constexpr size_t kPitch = 512;
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  uint64_t allocated = 0;
  const CUresult result = allocate(Source::device, *pitch * height, allocated);
  if (result == CUDA_SUCCESS) *address = allocated;
  return shown.says(result);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  FAKE_SHOWN(cuMemFree_v2, address);
  FAKE_CALL(kContext | kNoCapture);
  wait_for_context(call.lock());
  return shown.says(deallocate(false, address));
}

CUresult cuMemHostAlloc(void** address, size_t size, unsigned flags) {
  FAKE_SHOWN(cuMemHostAlloc, address, size, flags);
  FAKE_CALL(kContext | kNoCapture);
  state().seen.host_flags = flags;
  uint64_t allocated = 0;
  const CUresult result = allocate(Source::host, size, allocated);
  if (result == CUDA_SUCCESS) *address = to_memory(allocated);
  return shown.says(result);
}

CUresult cuMemAllocHost_v2(void** address, size_t size) {
  FAKE_SHOWN(cuMemAllocHost_v2, address, size);
  FAKE_CALL(kContext | kNoCapture);
  uint64_t allocated = 0;
  const CUresult result = allocate(Source::host, size, allocated);
  if (result == CUDA_SUCCESS) *address = to_memory(allocated);
  return shown.says(result);
}

CUresult cuMemFreeHost(void* address) {
  FAKE_SHOWN(cuMemFreeHost, address);
  FAKE_CALL(kContext | kNoCapture);
  wait_for_context(call.lock());
  return shown.says(deallocate(true, reinterpret_cast<uint64_t>(address)));
}

CUresult cuMemHostRegister_v2(void* address, size_t size, unsigned flags) {
  FAKE_CALL(kContext | kNoCapture);
  constexpr unsigned kKnown =
      gpupool::internal::cuda::kMemHostRegisterPortable | gpupool::internal::cuda::kMemHostRegisterDeviceMap;
  if (address == nullptr || size == 0 || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  state().seen.register_flags = flags;
  const bool is_new = state().registered.emplace(address, size).second;
  return is_new ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostUnregister(void* address) {
  FAKE_CALL(kContext | kNoCapture);
  if (!state().registered.contains(address)) return CUDA_ERROR_INVALID_VALUE;
  wait_for_context(call.lock());
  state().registered.erase(address);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr* address, size_t size, unsigned flags) {
  FAKE_SHOWN(cuMemAllocManaged, address, size, flags);
  FAKE_CALL(kContext | kNoCapture);
  if (flags != CU_MEM_ATTACH_GLOBAL) return CUDA_ERROR_INVALID_VALUE;
  if (state().devices[current_context()->device].attributes[CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] == 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  state().seen.managed_flags = flags;
  uint64_t allocated = 0;
  const CUresult result = allocate(Source::managed, size, allocated);
  if (result == CUDA_SUCCESS) *address = allocated;
  return shown.says(result);
}

}  // extern "C"
