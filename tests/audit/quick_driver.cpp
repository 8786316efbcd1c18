// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcuda.so.1 that takes little time and knows to the byte what it has given: the real
// driver's names for each function that `gpupool run --hooks` hooks, two devices, and cuGetProcAddress with
// versions. Its addresses hold nothing. tests/fake_cuda is stricter, and has none of arrays, graphs and
// cuGetProcAddress.
#include "quick_driver.hpp"

#include <pthread.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

namespace quick_driver {

/// Never destroyed.
Driver& driver() {
  static Driver* const only = [] {
    auto* const made = new Driver;
    for (int device = 0; device < kDevices; ++device) {
      made->devices[device].primary = {device, true};
      made->devices[device].pool.device = device;
      made->devices[device].chosen = &made->devices[device].pool;
    }
    (void)pthread_atfork(nullptr, nullptr, [] {
      if (driver().is_begun.exchange(false)) driver().is_forked = true;
    });
    return made;
  }();
  return *only;
}

int judge(std::initializer_list<const void*> needed, int device) {
  if (!driver().is_begun) return kNotInitialized;
  for (const void* each : needed)
    if (each == nullptr) return kInvalidValue;
  return device >= 0 && device < kDevices ? CUDA_SUCCESS : kInvalidDevice;
}

bool charge(int number, uint64_t bytes) {
  Device& device = driver().devices[number];
  const uint64_t used = device.used;
  if (bytes > kCapacity - used) return false;
  device.used = used + bytes;
  device.peak = std::max(device.peak.load(), used + bytes);
  return true;
}

uint64_t place(uint64_t bytes) {
  constexpr uint64_t kApart = 512;
  const uint64_t at = driver().next;
  driver().next += (bytes + kApart) / kApart * kApart;
  return at;
}

void hold(Pool& pool, uint64_t bytes) {
  driver().devices[pool.device].used -= pool.reserved - bytes;
  pool.reserved = bytes;
}

void end_if_unused(Pool& pool) {
  if (!pool.is_destroyed || pool.live != 0) return;
  hold(pool, 0);
  delete &pool;
}

int give(uint64_t bytes, uint64_t* address) {
  if (const int wrong = judge({address}); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  if (current == nullptr) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  if (!charge(current->device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = place(bytes);
  driver().given[*address] = {current->device, bytes, current};
  return CUDA_SUCCESS;
}

int take_back(uint64_t address) {
  if (const int wrong = judge({}); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  const auto found = driver().given.find(address);
  if (found == driver().given.end()) return kInvalidValue;
  const Given& given = found->second;
  if (given.pool != nullptr) {
    given.pool->live -= given.bytes;
    end_if_unused(*given.pool);
  } else {
    driver().devices[given.device].used -= given.bytes;
  }
  driver().given.erase(found);
  return CUDA_SUCCESS;
}

namespace {

void end(Context* context) {
  std::erase_if(driver().given, [&](const auto& each) {
    const Given& given = each.second;
    if (given.context != context) return false;
    if (given.pool != nullptr) given.pool->live -= given.bytes;
    if (given.pool == nullptr) driver().devices[given.device].used -= given.bytes;
    return true;
  });
}

void let_go(std::unordered_map<uint64_t, Given>::iterator chunk) {
  if (--chunk->second.holders != 0) return;
  driver().devices[chunk->second.device].used -= chunk->second.bytes;
  driver().chunks.erase(chunk);
}

uint64_t size_of(size_t width, size_t height, size_t depth, unsigned channels) {
  return width * std::max<size_t>(height, 1) * std::max<size_t>(depth, 1) * channels * 4;  // of floats
}

}  // namespace
}  // namespace quick_driver

using namespace quick_driver;

extern "C" {

uint64_t driver_used(int device) {
  return driver().devices[device].used;
}
uint64_t driver_peak(int device) {
  return driver().devices[device].peak;
}
/// Memory is freed by somebody who is not hooked, and its address is the next to be given.
void driver_forget(CUdeviceptr address_of_it) {
  (void)take_back(address_of_it);
  driver().next = address_of_it;
}
/// Requests for addresses of functions that code of such a file has made.
uint64_t driver_requests_of(const char* file) {
  std::ifstream maps("/proc/self/maps");
  uint64_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end_of_it = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end_of_it) != 2 ||
        line.find(file) == std::string::npos)
      continue;
    for (const auto& [address, times] : driver().requests)
      if (address >= begin && address < end_of_it) count += times;
  }
  return count;
}

int cuInit(unsigned) {
  if (driver().is_forked) return kNotInitialized;
  driver().is_begun = true;
  return CUDA_SUCCESS;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
int cuDeviceGetCount(int* count) {
  *count = kDevices;
  return driver().is_begun ? CUDA_SUCCESS : kNotInitialized;
}
int cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  if (const int wrong = judge({uuid}, device); wrong != 0) return wrong;
  *uuid = {};
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}
/// Another one, as of a MIG instance; the stand-in that pools use says the same.
int cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  (void)cuDeviceGetUuid(uuid, device);
  uuid->bytes[0] = static_cast<char>(0xfa);
  return CUDA_SUCCESS;
}
int cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  if (const int wrong = judge({bytes}, device); wrong != 0) return wrong;
  *bytes = kCapacity;
  return CUDA_SUCCESS;
}

int cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice device) {
  if (const int wrong = judge({context}, device); wrong != 0) return wrong;
  current = new Context{device, false};
  *context = reinterpret_cast<CUcontext>(current);
  return CUDA_SUCCESS;
}
int cuCtxDestroy_v2(CUcontext context) {
  if (const int wrong = judge({context}); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  auto* const gone = reinterpret_cast<Context*>(context);
  end(gone);
  if (current == gone) current = nullptr;
  delete gone;
  return CUDA_SUCCESS;
}
int cuCtxSetCurrent(CUcontext context) {
  current = reinterpret_cast<Context*>(context);
  return CUDA_SUCCESS;
}
int cuCtxGetCurrent(CUcontext* context) {
  if (const int wrong = judge({context}); wrong != 0) return wrong;
  *context = reinterpret_cast<CUcontext>(current);
  return CUDA_SUCCESS;
}
int cuCtxGetDevice(CUdevice* device) {
  if (const int wrong = judge({device}); wrong != 0) return wrong;
  if (current == nullptr) return kInvalidContext;
  *device = current->device;
  return CUDA_SUCCESS;
}
/// One is enough here.
static constinit thread_local Context* pushed = nullptr;
int cuCtxPushCurrent_v2(CUcontext context) {
  pushed = std::exchange(current, reinterpret_cast<Context*>(context));
  return CUDA_SUCCESS;
}
int cuCtxPopCurrent_v2(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(std::exchange(current, pushed));
  return CUDA_SUCCESS;
}
int cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (const int wrong = judge({context}, device); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  ++driver().devices[device].references;
  *context = reinterpret_cast<CUcontext>(&driver().devices[device].primary);
  return CUDA_SUCCESS;
}
int cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (const int wrong = judge({}, device); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  Device& there = driver().devices[device];
  if (there.references == 0) return kInvalidContext;
  if (--there.references == 0) end(&there.primary);
  return CUDA_SUCCESS;
}
int cuDevicePrimaryCtxReset_v2(CUdevice device) {
  if (const int wrong = judge({}, device); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  end(&driver().devices[device].primary);
  driver().devices[device].references = 0;
  return CUDA_SUCCESS;
}
int cuCtxDestroy(CUcontext context) {
  return cuCtxDestroy_v2(context);
}
int cuCtxDetach(CUcontext context) {
  return cuCtxDestroy_v2(context);
}
int cuDevicePrimaryCtxRelease(CUdevice device) {
  return cuDevicePrimaryCtxRelease_v2(device);
}
int cuDevicePrimaryCtxReset(CUdevice device) {
  return cuDevicePrimaryCtxReset_v2(device);
}
int cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (const int wrong = judge({flags, active}, device); wrong != 0) return wrong;
  *flags = 0;
  *active = driver().devices[device].references != 0 ? 1 : 0;
  return CUDA_SUCCESS;
}
int cuMemAlloc_v2(CUdeviceptr* to, size_t bytes) {
  return give(bytes, reinterpret_cast<uint64_t*>(to));
}
int cuMemAllocPitch_v2(CUdeviceptr* to, size_t* pitch, size_t width, size_t height, unsigned) {
  if (const int wrong = judge({to, pitch}); wrong != 0) return wrong;
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  return give(*pitch * height, reinterpret_cast<uint64_t*>(to));
}
int cuMemAllocManaged(CUdeviceptr* to, size_t bytes, unsigned) {
  return give(bytes, reinterpret_cast<uint64_t*>(to));
}
int cuMemFree_v2(CUdeviceptr of) {
  return take_back(of);
}

int cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemProp* properties,
                unsigned long long) {
  if (const int wrong = judge({handle, properties}); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  if (const int wrong = judge({}, properties->location.id); wrong != 0) return wrong;
  if (!charge(properties->location.id, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = place(1);
  driver().chunks[*handle] = {properties->location.id, bytes};
  return CUDA_SUCCESS;
}
int cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address_of_it) {
  if (const int wrong = judge({handle}); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  const auto at = reinterpret_cast<uintptr_t>(address_of_it);
  const auto found = std::find_if(driver().mapped.begin(), driver().mapped.end(), [&](const auto& each) {
    return at >= each.first && at - each.first < driver().chunks[each.second].bytes;
  });
  if (found == driver().mapped.end()) return kInvalidValue;
  *handle = found->second;
  ++driver().chunks[*handle].holders;
  return CUDA_SUCCESS;
}
int cuMemMap(CUdeviceptr at, size_t, size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
  if (const int wrong = judge({}); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  const auto found = driver().chunks.find(handle);
  if (found == driver().chunks.end()) return kInvalidValue;
  ++found->second.holders;
  driver().mapped[at] = handle;
  return CUDA_SUCCESS;
}
int cuMemUnmap(CUdeviceptr at, size_t bytes) {
  if (const int wrong = judge({}); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  for (const CUdeviceptr end_of_it = at + bytes; at < end_of_it;) {
    const auto found = driver().mapped.find(at);
    if (found == driver().mapped.end()) return kInvalidValue;
    const auto chunk = driver().chunks.find(found->second);
    at += chunk->second.bytes;
    driver().mapped.erase(found);
    let_go(chunk);
  }
  return CUDA_SUCCESS;
}
int cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (const int wrong = judge({}); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  const auto found = driver().chunks.find(handle);
  if (found == driver().chunks.end()) return kInvalidValue;
  let_go(found);
  return CUDA_SUCCESS;
}

int cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* wanted) {
  if (const int wrong = judge({array, wanted}); wrong != 0) return wrong;
  return give(size_of(wanted->Width, wanted->Height, 1, wanted->NumChannels),
              reinterpret_cast<uint64_t*>(array));
}
int cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* wanted) {
  if (const int wrong = judge({array, wanted}); wrong != 0) return wrong;
  return give(size_of(wanted->Width, wanted->Height, wanted->Depth, wanted->NumChannels),
              reinterpret_cast<uint64_t*>(array));
}
int cuArrayDestroy(CUarray array) {
  return take_back(reinterpret_cast<uintptr_t>(array));
}
int cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* wanted, unsigned levels) {
  if (const int wrong = judge({array, wanted}); wrong != 0) return wrong;
  uint64_t bytes = 0;
  for (unsigned level = 0; level < levels; ++level)
    bytes += size_of(std::max<size_t>(wanted->Width >> level, 1), wanted->Height >> level,
                     wanted->Depth >> level, wanted->NumChannels);
  return give(bytes, reinterpret_cast<uint64_t*>(array));
}
int cuMipmappedArrayDestroy(CUmipmappedArray array) {
  return take_back(reinterpret_cast<uintptr_t>(array));
}

int cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (const int wrong = judge({}); wrong != 0) return wrong;
  if (current == nullptr) return kInvalidContext;
  if (total != nullptr) *total = kCapacity;
  if (free != nullptr) *free = kCapacity - driver().devices[current->device].used;
  return CUDA_SUCCESS;
}

}  // extern "C"
