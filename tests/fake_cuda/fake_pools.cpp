// SPDX-License-Identifier: Apache-2.0
// The stand-in driver: its memory pools, and the library that CUDA_INJECTION64_PATH names. A pool takes whole
// granules, no more than its maxSize, and gives back what exceeds its threshold when a stream is waited for.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "fake_state.hpp"
#include "frameworks/inject/driver.hpp"

using namespace fake;
using gpupool::inject::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
using gpupool::inject::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
using gpupool::inject::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
using gpupool::inject::CUmemoryPool;
using gpupool::inject::CUmemPool_attribute;
using gpupool::inject::CUmemPoolProps;

namespace {

struct FakePool {
  int device = 0;
  bool is_default = false;
  uint64_t most = UINT64_MAX;
  uint64_t threshold = 0;
  uint64_t used = 0;
  uint64_t reserved = 0;
};

struct Block {
  FakePool* pool;
  uint64_t size;
};

struct Pools {
  FakePool defaults[kDeviceCount];
  FakePool* current[kDeviceCount];
  std::map<FakePool*, std::unique_ptr<FakePool>> made;
  std::map<CUdeviceptr, Block> blocks;
};

Pools& pools() {
  static Pools* const all = [] {
    auto* created = new Pools;
    for (int device = 0; device < kDeviceCount; ++device) {
      created->defaults[device] = {device, true};
      created->current[device] = &created->defaults[device];
    }
    return created;
  }();
  return *all;
}

FakePool* find(CUmemoryPool handle) {
  auto* const wanted = reinterpret_cast<FakePool*>(handle);
  for (FakePool& each : pools().defaults) {
    if (&each == wanted) return wanted;
  }
  return pools().made.contains(wanted) ? wanted : nullptr;
}

CUmemoryPool to_handle(FakePool* pool) {
  return reinterpret_cast<CUmemoryPool>(pool);
}

void keep_at_most(FakePool& pool, uint64_t bytes) {
  const uint64_t kept = std::max(pool.used, std::min(pool.reserved, bytes));
  state().devices[pool.device].used -= pool.reserved - kept;
  pool.reserved = kept;
}

CUresult check(int device) {
  if (state().process == 0) return CUDA_ERROR_NOT_INITIALIZED;
  return device >= 0 && device < kDeviceCount ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

bool is_allowed(const CUmemPoolProps& properties) {
  return properties.allocType == gpupool::inject::CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties.location.type == gpupool::inject::CU_MEM_LOCATION_TYPE_DEVICE &&
         properties.handleTypes == 0 && properties.usage == 0 &&
         std::all_of(std::begin(properties.reserved), std::end(properties.reserved),
                     [](unsigned char byte) { return byte == 0; });
}

CUresult allocate(FakePool& pool, size_t size, CUdeviceptr* address) {
  DeviceState& device = state().devices[pool.device];
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t whole = (size + kGranularity - 1) / kGranularity * kGranularity;
  const uint64_t more = pool.used + whole > pool.reserved ? pool.used + whole - pool.reserved : 0;
  if (whole > pool.most - std::min(pool.most, pool.used)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (more > device.capacity - std::min(device.capacity, device.used)) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const memory =
      mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  device.used += more;
  pool.reserved += more;
  pool.used += whole;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  pools().blocks[*address] = {&pool, whole};
  return CUDA_SUCCESS;
}

CUresult deallocate(CUdeviceptr address) {
  const auto found = pools().blocks.find(address);
  if (found == pools().blocks.end()) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(address), found->second.size);
  found->second.pool->used -= found->second.size;
  pools().blocks.erase(found);
  return CUDA_SUCCESS;
}

gpupool::inject::cupti::CUmemoryPool to_cuptis(CUmemoryPool pool) {
  return reinterpret_cast<gpupool::inject::cupti::CUmemoryPool>(pool);
}

}  // namespace

void fake::release_beyond_thresholds() {
  for (FakePool& each : pools().defaults) keep_at_most(each, each.threshold);
  for (auto& [pool, owner] : pools().made) keep_at_most(*pool, pool->threshold);
}

/// With no lock held: the library calls the driver, which is not initialised yet.
void fake::inject_library() {
  const char* const path = std::getenv("CUDA_INJECTION64_PATH");
  void* const library = path != nullptr && *path != '\0' ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  void* const function = library != nullptr ? dlsym(library, "InitializeInjection") : nullptr;
  if (function != nullptr) (void)reinterpret_cast<int (*)()>(function)();
}

extern "C" {

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  FAKE_CALL(kNothing);
  if (const CUresult result = check(device); result != CUDA_SUCCESS) return result;
  *pool = to_handle(&pools().defaults[device]);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  FAKE_CALL(kNothing);
  if (const CUresult result = check(device); result != CUDA_SUCCESS) return result;
  *pool = to_handle(pools().current[device]);
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle) {
  FAKE_CALL(kNothing);
  if (const CUresult result = check(device); result != CUDA_SUCCESS) return result;
  FakePool* const pool = find(handle);
  if (pool == nullptr || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
  pools().current[device] = pool;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* handle, const CUmemPoolProps* properties) {
  FAKE_CALL(kNothing);
  if (const CUresult result = check(properties->location.id); result != CUDA_SUCCESS) return result;
  if (!is_allowed(*properties)) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<FakePool>();
  made->device = properties->location.id;
  if (properties->maxSize != 0) made->most = properties->maxSize;
  *handle = to_handle(made.get());
  pools().made.emplace(made.get(), std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  FAKE_CALL(kNothing);
  FakePool* const pool = find(handle);
  if (pool == nullptr || pool->is_default || pool->used != 0) return CUDA_ERROR_INVALID_VALUE;
  keep_at_most(*pool, 0);
  if (pools().current[pool->device] == pool) pools().current[pool->device] = &pools().defaults[pool->device];
  pools().made.erase(pool);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  FAKE_CALL(kNothing);
  FakePool* const pool = find(handle);
  if (pool == nullptr || attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) return CUDA_ERROR_INVALID_VALUE;
  pool->threshold = *static_cast<uint64_t*>(value);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  FAKE_CALL(kNothing);
  const FakePool* const pool = find(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t& to = *static_cast<uint64_t*>(value);
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) to = pool->threshold;
  if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) to = pool->reserved;
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT) to = pool->used;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t bytes) {
  FAKE_CALL(kNothing);
  FakePool* const pool = find(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  keep_at_most(*pool, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t size, CUstream stream) {
  FAKE_SHOWN(cuMemAllocAsync, address, size, to_cuptis(stream));
  FAKE_CALL(kContext);
  return shown.says(allocate(*pools().current[current_context()->device], size, address));
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr* address, size_t size, CUstream stream) {
  FAKE_SHOWN_AS(cuMemAllocAsync_ptsz, cuMemAllocAsync, address, size, to_cuptis(stream));
  FAKE_CALL(kContext);
  return shown.says(allocate(*pools().current[current_context()->device], size, address));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t size, CUmemoryPool handle, CUstream stream) {
  FAKE_SHOWN(cuMemAllocFromPoolAsync, address, size, to_cuptis(handle), to_cuptis(stream));
  FAKE_CALL(kContext);
  FakePool* const pool = find(handle);
  return shown.says(pool != nullptr ? allocate(*pool, size, address) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  FAKE_SHOWN(cuMemFreeAsync, address, to_cuptis(stream));
  FAKE_CALL(kContext);
  return shown.says(deallocate(address));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  FAKE_SHOWN_AS(cuMemFreeAsync_ptsz, cuMemFreeAsync, address, to_cuptis(stream));
  FAKE_CALL(kContext);
  return shown.says(deallocate(address));
}

}  // extern "C"
