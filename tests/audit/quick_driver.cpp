// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcuda.so.1 that takes little time and knows to the byte what it has given: the real
// driver's names for each function that `gpupool run --hooks` hooks, two devices, and cuGetProcAddress with
// versions. Its addresses hold nothing. tests/fake_cuda is stricter, and has none of arrays, graphs and
// cuGetProcAddress.
#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "frameworks/audit/functions.hpp"

using namespace gpupool::audit;

namespace {

constexpr int kInvalidValue = 1;
constexpr int kNotInitialized = 3;
constexpr int kInvalidContext = 201;
constexpr int kNotFound = 500;
constexpr int kDevices = 2;
constexpr uint64_t kCapacity = uint64_t{64} << 30;
constexpr uint64_t kGranule = uint64_t{32} << 20;  // by which pools grow
constexpr uint64_t kPitch = 512;

struct Context {
  int device;
  bool is_primary;
};

struct Pool {
  int device;
  uint64_t live = 0;
  uint64_t reserved = 0;
};

struct Given {
  int device;
  uint64_t bytes;
  Context* context = nullptr;
  Pool* pool = nullptr;
  uint64_t holders = 1;  // of a chunk: handles and mappings
};

struct Device {
  std::atomic<uint64_t> used{0};
  std::atomic<uint64_t> peak{0};
  Context primary{};
  int references = 0;
  Pool pool{};
  uint64_t graphs = 0;
};

struct Driver {
  std::mutex lock;
  bool is_begun = false;
  Device devices[kDevices];
  std::unordered_map<uint64_t, Given> given;      // by address, or handle of an array
  std::unordered_map<uint64_t, Given> chunks;     // by handle
  std::unordered_map<uint64_t, uint64_t> mapped;  // address to handle
  uint64_t next = uint64_t{1} << 40;
  std::map<uintptr_t, uint64_t> requests;  // for functions, by who makes them
};

/// Never destroyed.
Driver& driver() {
  static Driver* const only = [] {
    auto* const made = new Driver;
    for (int device = 0; device < kDevices; ++device) {
      made->devices[device].primary = {device, true};
      made->devices[device].pool.device = device;
    }
    return made;
  }();
  return *only;
}

constinit thread_local Context* current = nullptr;

using Guard = std::lock_guard<std::mutex>;

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

int give(uint64_t bytes, uint64_t* address) {
  const Guard guard(driver().lock);
  if (current == nullptr) return kInvalidContext;
  if (address == nullptr || bytes == 0) return kInvalidValue;
  if (!charge(current->device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = place(bytes);
  driver().given[*address] = {current->device, bytes, current};
  return CUDA_SUCCESS;
}

int take_back(uint64_t address) {
  const Guard guard(driver().lock);
  const auto found = driver().given.find(address);
  if (found == driver().given.end()) return kInvalidValue;
  const Given& given = found->second;
  if (given.pool != nullptr) {
    given.pool->live -= given.bytes;
  } else {
    driver().devices[given.device].used -= given.bytes;
  }
  driver().given.erase(found);
  return CUDA_SUCCESS;
}

void hold(Pool& pool, uint64_t bytes) {
  driver().devices[pool.device].used -= pool.reserved - bytes;
  pool.reserved = bytes;
}

int give_of_pool(Pool& pool, uint64_t bytes, uint64_t* address) {
  const Guard guard(driver().lock);
  if (address == nullptr || bytes == 0) return kInvalidValue;
  if (pool.live + bytes > pool.reserved) {
    const uint64_t more = (pool.live + bytes - pool.reserved + kGranule - 1) / kGranule * kGranule;
    if (!charge(pool.device, more)) return CUDA_ERROR_OUT_OF_MEMORY;
    pool.reserved += more;
  }
  pool.live += bytes;
  *address = place(bytes);
  driver().given[*address] = {pool.device, bytes, current, &pool};
  return CUDA_SUCCESS;
}

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

/// What the driver gives out by cuGetProcAddress and does not export.
int unexported_alloc(CUdeviceptr* address, size_t bytes) {
  return give(bytes, reinterpret_cast<uint64_t*>(address));
}

/// A later version with other arguments.
int alloc_of_the_future(unsigned, CUdeviceptr* address, size_t bytes) {
  return give(bytes, reinterpret_cast<uint64_t*>(address));
}

template <typename Function>
void* address(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

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
  *uuid = {};
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}
int cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  *bytes = kCapacity;
  return CUDA_SUCCESS;
}

int cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice device) {
  current = new Context{device, false};
  *context = reinterpret_cast<CUcontext>(current);
  return CUDA_SUCCESS;
}
int cuCtxDestroy_v2(CUcontext context) {
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
  *context = reinterpret_cast<CUcontext>(current);
  return CUDA_SUCCESS;
}
int cuCtxGetDevice(CUdevice* device) {
  if (current == nullptr) return kInvalidContext;
  *device = current->device;
  return CUDA_SUCCESS;
}
int cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const Guard guard(driver().lock);
  ++driver().devices[device].references;
  *context = reinterpret_cast<CUcontext>(&driver().devices[device].primary);
  return CUDA_SUCCESS;
}
int cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  const Guard guard(driver().lock);
  Device& there = driver().devices[device];
  if (there.references == 0) return kInvalidContext;
  if (--there.references == 0) end(&there.primary);
  return CUDA_SUCCESS;
}
int cuDevicePrimaryCtxReset_v2(CUdevice device) {
  const Guard guard(driver().lock);
  end(&driver().devices[device].primary);
  driver().devices[device].references = 0;
  return CUDA_SUCCESS;
}
int cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = driver().devices[device].references != 0 ? 1 : 0;
  return CUDA_SUCCESS;
}
int cuThreadExchangeStreamCaptureMode(unsigned* mode) {
  *mode = 0;
  return CUDA_SUCCESS;
}

int cuMemAlloc_v2(CUdeviceptr* to, size_t bytes) {
  return give(bytes, reinterpret_cast<uint64_t*>(to));
}
int cuMemAllocPitch_v2(CUdeviceptr* to, size_t* pitch, size_t width, size_t height, unsigned) {
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  return give(*pitch * height, reinterpret_cast<uint64_t*>(to));
}
int cuMemAllocManaged(CUdeviceptr* to, size_t bytes, unsigned) {
  return give(bytes, reinterpret_cast<uint64_t*>(to));
}
int cuMemFree_v2(CUdeviceptr of) {
  return take_back(of);
}

int cuMemAllocAsync(CUdeviceptr* to, size_t bytes, CUstream) {
  if (current == nullptr) return kInvalidContext;
  return give_of_pool(driver().devices[current->device].pool, bytes, reinterpret_cast<uint64_t*>(to));
}
int cuMemAllocAsync_ptsz(CUdeviceptr* to, size_t bytes, CUstream stream) {
  return cuMemAllocAsync(to, bytes, stream);
}
int cuMemAllocFromPoolAsync(CUdeviceptr* to, size_t bytes, CUmemoryPool pool, CUstream) {
  return give_of_pool(*reinterpret_cast<Pool*>(pool), bytes, reinterpret_cast<uint64_t*>(to));
}
int cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* to, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return cuMemAllocFromPoolAsync(to, bytes, pool, stream);
}
int cuMemFreeAsync(CUdeviceptr of, CUstream) {
  return take_back(of);
}
int cuMemFreeAsync_ptsz(CUdeviceptr of, CUstream) {
  return take_back(of);
}
int cuMemPoolCreate(CUmemoryPool* pool, const CUmemProp* properties) {
  *pool = reinterpret_cast<CUmemoryPool>(new Pool{properties->location.id});
  return CUDA_SUCCESS;
}
int cuMemPoolTrimTo(CUmemoryPool handle, size_t bytes) {
  const Guard guard(driver().lock);
  auto& pool = *reinterpret_cast<Pool*>(handle);
  const uint64_t least = (std::max<uint64_t>(bytes, pool.live) + kGranule - 1) / kGranule * kGranule;
  hold(pool, std::min(pool.reserved, least));
  return CUDA_SUCCESS;
}
int cuMemPoolDestroy(CUmemoryPool handle) {
  const Guard guard(driver().lock);
  auto* const pool = reinterpret_cast<Pool*>(handle);
  hold(*pool, 0);
  delete pool;
  return CUDA_SUCCESS;
}
int cuMemPoolGetAttribute(CUmemoryPool pool, unsigned attribute, void* value) {
  const Guard guard(driver().lock);
  if (attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) return kInvalidValue;
  *static_cast<uint64_t*>(value) = reinterpret_cast<Pool*>(pool)->reserved;
  return CUDA_SUCCESS;
}
int cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  *pool = reinterpret_cast<CUmemoryPool>(&driver().devices[device].pool);
  return CUDA_SUCCESS;
}

int cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemProp* properties,
                unsigned long long) {
  const Guard guard(driver().lock);
  if (!charge(properties->location.id, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = place(1);
  driver().chunks[*handle] = {properties->location.id, bytes};
  return CUDA_SUCCESS;
}
int cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address_of_it) {
  const Guard guard(driver().lock);
  const auto found = driver().mapped.find(reinterpret_cast<uintptr_t>(address_of_it));
  if (found == driver().mapped.end()) return kInvalidValue;
  *handle = found->second;
  ++driver().chunks[*handle].holders;
  return CUDA_SUCCESS;
}
int cuMemMap(CUdeviceptr at, size_t, size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
  const Guard guard(driver().lock);
  const auto found = driver().chunks.find(handle);
  if (found == driver().chunks.end()) return kInvalidValue;
  ++found->second.holders;
  driver().mapped[at] = handle;
  return CUDA_SUCCESS;
}
int cuMemUnmap(CUdeviceptr at, size_t bytes) {
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
  const Guard guard(driver().lock);
  const auto found = driver().chunks.find(handle);
  if (found == driver().chunks.end()) return kInvalidValue;
  let_go(found);
  return CUDA_SUCCESS;
}

int cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* wanted) {
  return give(size_of(wanted->Width, wanted->Height, 1, wanted->NumChannels),
              reinterpret_cast<uint64_t*>(array));
}
int cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* wanted) {
  return give(size_of(wanted->Width, wanted->Height, wanted->Depth, wanted->NumChannels),
              reinterpret_cast<uint64_t*>(array));
}
int cuArrayDestroy(CUarray array) {
  return take_back(reinterpret_cast<uintptr_t>(array));
}
int cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* wanted, unsigned levels) {
  uint64_t bytes = 0;
  for (unsigned level = 0; level < levels; ++level)
    bytes += size_of(std::max<size_t>(wanted->Width >> level, 1), wanted->Height >> level,
                     wanted->Depth >> level, wanted->NumChannels);
  return give(bytes, reinterpret_cast<uint64_t*>(array));
}
int cuMipmappedArrayDestroy(CUmipmappedArray array) {
  return take_back(reinterpret_cast<uintptr_t>(array));
}

/// A graph is the number of bytes that its nodes need.
int cuGraphLaunch(CUgraphExec graph, CUstream) {
  const Guard guard(driver().lock);
  Device& device = driver().devices[current->device];
  const auto bytes = reinterpret_cast<uintptr_t>(graph);
  if (!charge(current->device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  device.graphs += bytes;
  return CUDA_SUCCESS;
}
int cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream) {
  return cuGraphLaunch(graph, stream);
}
int cuDeviceGraphMemTrim(CUdevice device) {
  const Guard guard(driver().lock);
  driver().devices[device].used -= driver().devices[device].graphs;
  driver().devices[device].graphs = 0;
  return CUDA_SUCCESS;
}
int cuDeviceGetGraphMemAttribute(CUdevice device, unsigned attribute, void* value) {
  if (attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) return kInvalidValue;
  *static_cast<uint64_t*>(value) = driver().devices[device].graphs;
  return CUDA_SUCCESS;
}

int cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (current == nullptr) return kInvalidContext;
  if (total != nullptr) *total = kCapacity;
  if (free != nullptr) *free = kCapacity - driver().devices[current->device].used;
  return CUDA_SUCCESS;
}

int cuGetProcAddress_v2(const char* name, void** to, int version, uint64_t flags, int* status);
int cuGetProcAddress(const char* name, void** to, int version, uint64_t flags);
static int find_function(const char* name, void** to, int version, uint64_t flags, int* status);

/// As the driver chooses: the newest that the version knows, and that of the stream's kind. What it does not
/// know is asked for on purpose, an empty name too.
static int find_function(const char* name, void** to, int version, uint64_t flags, int* status) {
  constexpr uint64_t kPerThread = 2;
  *to = nullptr;
  if (status != nullptr) *status = 1;
  const bool is_ptsz = flags == kPerThread;
  if (std::strcmp(name, "cuMemAlloc") == 0 && version >= 14000) {
    *to = address(&alloc_of_the_future);
  } else if (std::strcmp(name, "cuMemAlloc") == 0 && std::getenv("DRIVER_UNEXPORTED") != nullptr) {
    *to = address(&unexported_alloc);
  } else if (std::strcmp(name, "cuGetProcAddress") == 0) {
    *to = version >= 12000 ? address(&cuGetProcAddress_v2) : address(&cuGetProcAddress);
  }
  struct Row {
    const char* exported;
    const char* base;
    int since;
    void* function;
  };
#define ROW(exported, base, since, kind, arguments) {#exported, #base, since, address(&exported)},
  static const Row rows[] = {
      {"cuInit", "cuInit", 2000, address(&cuInit)},
      {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000, address(&cuDevicePrimaryCtxRetain)},
      {"cuCtxSetCurrent", "cuCtxSetCurrent", 4000, address(&cuCtxSetCurrent)},
      GPUPOOL_HOOKED_OF_CUDA(ROW)};
#undef ROW
  for (const Row& row : rows) {
    if (*to != nullptr || std::strcmp(row.base, name) != 0 || version < row.since) continue;
    const bool has_ptsz = std::strstr(row.exported, "_ptsz") != nullptr;
    const bool is_of_both = std::strstr(name, "Async") == nullptr && std::strstr(name, "Launch") == nullptr;
    if (is_of_both || has_ptsz == is_ptsz) *to = row.function;
  }
  if (status != nullptr && *to != nullptr) *status = 0;
  return *to != nullptr || *name == '\0' ? CUDA_SUCCESS : kNotFound;
}

int cuGetProcAddress(const char* name, void** to, int version, uint64_t flags) {
  ++driver().requests[reinterpret_cast<uintptr_t>(__builtin_return_address(0))];
  return find_function(name, to, version, flags, nullptr);
}
int cuGetProcAddress_v2(const char* name, void** to, int version, uint64_t flags, int* status) {
  ++driver().requests[reinterpret_cast<uintptr_t>(__builtin_return_address(0))];
  return find_function(name, to, version, flags, status);
}

}  // extern "C"
