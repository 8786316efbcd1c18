// SPDX-License-Identifier: Apache-2.0
// The driver's functions as the program gets them. Each asks the cap, calls the real one with the caller's
// arguments, and tells the ledger what came of it: the driver judges bad arguments, and its results are the
// caller's. No lock is held meanwhile.
#include <algorithm>
#include <bit>
#include <cstring>

#include "frameworks/audit/bindings.hpp"
#include "frameworks/audit/coverage.hpp"
#include "frameworks/audit/functions.hpp"
#include "frameworks/audit/hooks.hpp"
#include "frameworks/audit/ledger.hpp"
#include "frameworks/audit/pools.hpp"

namespace gpupool::audit {

constinit Real real;

namespace {

/// As bytes of an allocation that nobody has.
constexpr uint64_t kTooMuch = UINT64_MAX;

uint64_t product(uint64_t one, uint64_t other) {
  uint64_t bytes = 0;
  return __builtin_mul_overflow(one, other, &bytes) ? kTooMuch : bytes;
}

/// The device and context that the calling thread allocates on. False: none that is counted.
bool find_place(Block& block) {
  if (real.cuCtxGetDevice(&block.device) != CUDA_SUCCESS || !Ledger::has(block.device)) return false;
  if (real.cuCtxGetCurrent(&block.context) != CUDA_SUCCESS) return false;
  see_device(block.device);
  return true;
}

/// An allocation of `block.bytes` by `call`, which the driver puts at *address.
template <typename Pointer, typename Call>
int allocate(Block block, Pointer* address, Call call) {
  if (address == nullptr || !find_place(block)) return call();
  if (block.kind != Kind::managed && !take(block.device, block.bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const int result = call();
  if (result == CUDA_SUCCESS) {
    Ledger::get().put((uint64_t)*address, block);
  } else {
    Ledger::get().end(block);
  }
  return result;
}

// ---- arrays

unsigned bytes_of(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 1;  // images and what is compressed have no more for an element
  }
}

/// Without what the driver adds for tiles.
uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR& array) {
  if ((array.Flags & (kArraySparse | kArrayDeferred)) != 0) return 0;  // mapped later
  const uint64_t element = uint64_t{bytes_of(array.Format)} * array.NumChannels;
  const uint64_t plane = product(array.Width, std::max<uint64_t>(array.Height, 1));
  return product(product(plane, std::max<uint64_t>(array.Depth, 1)), element);
}

uint64_t bytes_of(CUDA_ARRAY3D_DESCRIPTOR array, unsigned levels) {
  const auto most = static_cast<unsigned>(std::bit_width(std::max({array.Width, array.Height, array.Depth})));
  uint64_t bytes = 0;
  for (unsigned level = 0; level < std::min(levels, most); ++level) {
    if (__builtin_add_overflow(bytes, bytes_of(array), &bytes)) return kTooMuch;
    array.Width = std::max<size_t>(array.Width / 2, 1);
    array.Height /= 2;
    if ((array.Flags & kArrayLayered) == 0) array.Depth /= 2;
  }
  return bytes;
}

template <typename Answer>
void lower(Answer* to, uint64_t most) {
  if (to != nullptr) *to = std::min<Answer>(*to, most);
}

}  // namespace

// ---- how programs find the functions

int hook::cuGetProcAddress(const char* name, void** to, int version, uint64_t flags) noexcept {
  const int result = real.cuGetProcAddress(name, to, version, flags);
  if (result == CUDA_SUCCESS && to != nullptr) *to = hook_for_answer(*to);
  return result;
}

int hook::cuGetProcAddress_v2(const char* name, void** to, int version, uint64_t flags,
                              int* status) noexcept {
  const int result = real.cuGetProcAddress_v2(name, to, version, flags, status);
  if (result == CUDA_SUCCESS && to != nullptr) *to = hook_for_answer(*to);
  return result;
}

// ---- memory

int hook::cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) noexcept {
  return allocate({bytes, nullptr, 0, Kind::memory}, address,
                  [&] { return real.cuMemAlloc_v2(address, bytes); });
}

/// The driver chooses the pitch: what turns out to exceed the cap is given back.
int hook::cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                             unsigned element) noexcept {
  Block block{product(width, height), nullptr, 0, Kind::memory};
  const auto call = [&] { return real.cuMemAllocPitch_v2(address, pitch, width, height, element); };
  if (address == nullptr || pitch == nullptr || !find_place(block)) return call();
  if (!take(block.device, block.bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const int result = call();
  if (result != CUDA_SUCCESS) {
    Ledger::get().end(block);
    return result;
  }
  const uint64_t padding = *pitch * height - block.bytes;
  if (!take(block.device, padding)) {
    (void)real.cuMemFree_v2(*address);
    Ledger::get().end(block);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  block.bytes += padding;
  Ledger::get().put(*address, block);
  return result;
}

int hook::cuMemFree_v2(CUdeviceptr address) noexcept {
  return deallocate(address, [&] { return real.cuMemFree_v2(address); });
}

int hook::cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) noexcept {
  return allocate({bytes, nullptr, 0, Kind::managed}, address,
                  [&] { return real.cuMemAllocManaged(address, bytes, flags); });
}

// ---- chunks

int hook::cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemProp* properties,
                      unsigned long long flags) noexcept {
  const auto call = [&] { return real.cuMemCreate(handle, bytes, properties, flags); };
  if (handle == nullptr || properties == nullptr ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !Ledger::has(properties->location.id))
    return call();
  const int device = properties->location.id;
  see_device(device);
  if (!take(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const int result = call();
  if (result == CUDA_SUCCESS) {
    Ledger::get().create(*handle, device, bytes);
  } else {
    Ledger::get().device(device).account.give(bytes);
  }
  return result;
}

int hook::cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) noexcept {
  const int result = real.cuMemRetainAllocationHandle(handle, address);
  if (result == CUDA_SUCCESS) Ledger::get().retain(*handle, reinterpret_cast<uintptr_t>(address));
  return result;
}

int hook::cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                   unsigned long long flags) noexcept {
  const int result = real.cuMemMap(address, bytes, offset, handle, flags);
  if (result == CUDA_SUCCESS) Ledger::get().map(address, bytes, handle);
  return result;
}

/// The program chooses where it maps, so no other mapping can be there before this returns.
int hook::cuMemUnmap(CUdeviceptr address, size_t bytes) noexcept {
  const int result = real.cuMemUnmap(address, bytes);
  if (result == CUDA_SUCCESS) Ledger::get().unmap(address, bytes);
  return result;
}

int hook::cuMemRelease(CUmemGenericAllocationHandle handle) noexcept {
  Ledger& ledger = Ledger::get();
  const uint64_t chunk = ledger.release(handle);
  const int result = real.cuMemRelease(handle);
  if (chunk == 0) return result;
  if (result == CUDA_SUCCESS) {
    ledger.drop(chunk);
  } else {
    ledger.keep(handle, chunk);
  }
  return result;
}

// ---- arrays

int hook::cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* wanted) noexcept {
  const auto call = [&] { return real.cuArrayCreate_v2(array, wanted); };
  if (wanted == nullptr) return call();
  const uint64_t bytes = bytes_of({wanted->Width, wanted->Height, 0, wanted->Format, wanted->NumChannels, 0});
  return allocate({bytes, nullptr, 0, Kind::array}, array, call);
}

int hook::cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* wanted) noexcept {
  const auto call = [&] { return real.cuArray3DCreate_v2(array, wanted); };
  return wanted == nullptr ? call() : allocate({bytes_of(*wanted), nullptr, 0, Kind::array}, array, call);
}

int hook::cuArrayDestroy(CUarray array) noexcept {
  return deallocate(reinterpret_cast<uintptr_t>(array), [&] { return real.cuArrayDestroy(array); });
}

int hook::cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* wanted,
                                 unsigned levels) noexcept {
  const auto call = [&] { return real.cuMipmappedArrayCreate(array, wanted, levels); };
  return wanted == nullptr ? call()
                           : allocate({bytes_of(*wanted, levels), nullptr, 0, Kind::array}, array, call);
}

int hook::cuMipmappedArrayDestroy(CUmipmappedArray array) noexcept {
  return deallocate(reinterpret_cast<uintptr_t>(array), [&] { return real.cuMipmappedArrayDestroy(array); });
}

// ---- questions

int hook::cuMemGetInfo_v2(size_t* free, size_t* total) noexcept {
  const int result = real.cuMemGetInfo_v2(free, total);
  CUdevice device = 0;
  if (cap == UINT64_MAX || result != CUDA_SUCCESS || real.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      !Ledger::has(device))
    return result;
  settle_pools(device);
  lower(free, Ledger::get().device(device).account.room());
  lower(total, cap);
  return result;
}

int hook::cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) noexcept {
  const int result = real.cuDeviceTotalMem_v2(bytes, device);
  if (result == CUDA_SUCCESS) lower(bytes, cap);
  return result;
}

// ---- the ends of contexts

int hook::cuCtxDestroy_v2(CUcontext context) noexcept {
  const int result = real.cuCtxDestroy_v2(context);
  if (result == CUDA_SUCCESS) Ledger::get().end_context(context);
  return result;
}

namespace {

/// The device's primary context; null if it is not there. The driver names it only to who holds it.
CUcontext primary_context(CUdevice device) {
  CUcontext context = nullptr;
  unsigned flags = 0;
  int is_there = 0;
  if (real.cuDevicePrimaryCtxGetState(device, &flags, &is_there) != CUDA_SUCCESS || is_there == 0 ||
      real.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
    return nullptr;
  (void)real.cuDevicePrimaryCtxRelease_v2(device);
  return context;
}

}  // namespace

int hook::cuDevicePrimaryCtxRelease_v2(CUdevice device) noexcept {
  const CUcontext context = primary_context(device);
  const int result = real.cuDevicePrimaryCtxRelease_v2(device);
  unsigned flags = 0;
  int is_there = 0;
  if (context != nullptr && result == CUDA_SUCCESS &&
      real.cuDevicePrimaryCtxGetState(device, &flags, &is_there) == CUDA_SUCCESS && is_there == 0)
    Ledger::get().end_context(context);
  return result;
}

int hook::cuDevicePrimaryCtxReset_v2(CUdevice device) noexcept {
  const CUcontext context = primary_context(device);
  const int result = real.cuDevicePrimaryCtxReset_v2(device);
  if (context != nullptr && result == CUDA_SUCCESS) Ledger::get().end_context(context);
  return result;
}

}  // namespace gpupool::audit
