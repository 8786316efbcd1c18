// SPDX-License-Identifier: Apache-2.0
// The driver's functions as the program gets them. Each asks the cap, calls the real one with the caller's
// arguments, and tells the ledger what came of it: the driver judges bad arguments, and its results are the
// caller's. No lock is held meanwhile.
#include <algorithm>

#include "frameworks/audit/arrays.hpp"
#include "frameworks/audit/bindings.hpp"
#include "frameworks/audit/coverage.hpp"
#include "frameworks/audit/functions.hpp"
#include "frameworks/audit/hooks.hpp"
#include "frameworks/audit/ledger.hpp"
#include "frameworks/audit/pools.hpp"

namespace gpupool::audit {

constinit Real real;

namespace {

/// The device and context that the calling thread allocates on. False: none that is counted.
bool find_place(Block& block) {
  if (real.cuCtxGetDevice(&block.device) != CUDA_SUCCESS || !Ledger::has(block.device)) return false;
  return real.cuCtxGetCurrent(&block.context) == CUDA_SUCCESS && see_device(block.device);
}

/// What the driver has given becomes known before the program has it; what cannot be written down goes back.
template <typename Undo>
int keep(uint64_t address, const Block& block, Undo undo) {
  if (Ledger::get().put(address, block)) return CUDA_SUCCESS;
  (void)undo();
  Ledger::get().end(block);
  Ledger::get().device(block.device).account.count_refusal();
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/// An allocation of `block.bytes` by `call`, which the driver puts at *address.
template <typename Pointer, typename Call, typename Undo>
int allocate(Block block, Pointer* address, Call call, Undo undo) {
  if (address == nullptr || !find_place(block)) return call();
  if (block.kind == Kind::managed) {
    Ledger::get().device(block.device).account.take_managed(block.bytes);
  } else if (!take(block.device, block.bytes)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const int result = call();
  if (result == CUDA_SUCCESS) return keep((uint64_t)*address, block, [&] { return undo(*address); });
  Ledger::get().end(block);
  return result;
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
  return allocate(
      {bytes, nullptr, 0, Kind::memory}, address, [&] { return real.cuMemAlloc_v2(address, bytes); },
      real.cuMemFree_v2);
}

/// The driver chooses the pitch, which is not more than this in all that were seen. One that is larger and
/// turns out to exceed the cap is given back.
int hook::cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                             unsigned element) noexcept {
  constexpr uint64_t kLikely = 512;
  const uint64_t row = width <= kTooMuch - kLikely ? (width + kLikely - 1) / kLikely * kLikely : kTooMuch;
  Block block{product(row, height), nullptr, 0, Kind::memory};
  const auto call = [&] { return real.cuMemAllocPitch_v2(address, pitch, width, height, element); };
  if (address == nullptr || pitch == nullptr || !find_place(block)) return call();
  if (!take(block.device, block.bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const int result = call();
  if (result != CUDA_SUCCESS) {
    Ledger::get().end(block);
    return result;
  }
  const uint64_t right = *pitch * height;
  if (right > block.bytes && !take(block.device, right - block.bytes)) {
    (void)real.cuMemFree_v2(*address);
    Ledger::get().end(block);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (right < block.bytes) Ledger::get().device(block.device).account.give(block.bytes - right);
  block.bytes = right;
  return keep(*address, block, [&] { return real.cuMemFree_v2(*address); });
}

int hook::cuMemFree_v2(CUdeviceptr address) noexcept {
  return deallocate(address, [&] { return real.cuMemFree_v2(address); });
}

int hook::cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) noexcept {
  return allocate(
      {bytes, nullptr, 0, Kind::managed}, address,
      [&] { return real.cuMemAllocManaged(address, bytes, flags); }, real.cuMemFree_v2);
}

// ---- chunks

int hook::cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemProp* properties,
                      unsigned long long flags) noexcept {
  const auto call = [&] { return real.cuMemCreate(handle, bytes, properties, flags); };
  if (handle == nullptr || properties == nullptr ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !Ledger::has(properties->location.id) ||
      !see_device(properties->location.id))
    return call();
  const int device = properties->location.id;
  if (!take(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const int result = call();
  Account& account = Ledger::get().device(device).account;
  if (result == CUDA_SUCCESS && Ledger::get().create(*handle, device, bytes)) return result;
  account.give(bytes);
  if (result != CUDA_SUCCESS) return result;
  (void)real.cuMemRelease(*handle);
  account.count_refusal();
  return CUDA_ERROR_OUT_OF_MEMORY;
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
  return allocate({bytes, nullptr, 0, Kind::array}, array, call, real.cuArrayDestroy);
}

int hook::cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* wanted) noexcept {
  const auto call = [&] { return real.cuArray3DCreate_v2(array, wanted); };
  return wanted == nullptr
             ? call()
             : allocate({bytes_of(*wanted), nullptr, 0, Kind::array}, array, call, real.cuArrayDestroy);
}

int hook::cuArrayDestroy(CUarray array) noexcept {
  return deallocate(reinterpret_cast<uintptr_t>(array), [&] { return real.cuArrayDestroy(array); });
}

int hook::cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* wanted,
                                 unsigned levels) noexcept {
  const auto call = [&] { return real.cuMipmappedArrayCreate(array, wanted, levels); };
  return wanted == nullptr ? call()
                           : allocate({bytes_of(*wanted, levels), nullptr, 0, Kind::array}, array, call,
                                      real.cuMipmappedArrayDestroy);
}

int hook::cuMipmappedArrayDestroy(CUmipmappedArray array) noexcept {
  return deallocate(reinterpret_cast<uintptr_t>(array), [&] { return real.cuMipmappedArrayDestroy(array); });
}

// ---- questions

int hook::cuMemGetInfo_v2(size_t* free, size_t* total) noexcept {
  const int result = real.cuMemGetInfo_v2(free, total);
  CUdevice device = 0;
  if (!is_limited() || result != CUDA_SUCCESS || real.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      !Ledger::has(device))
    return result;
  join(device);
  settle_pools(device);
  const Account& account = Ledger::get().device(device).account;
  lower(free, account.room());
  lower(total, account.limit());
  return result;
}

int hook::cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) noexcept {
  const int result = real.cuDeviceTotalMem_v2(bytes, device);
  if (!is_limited() || result != CUDA_SUCCESS || !Ledger::has(device)) return result;
  join(device);
  lower(bytes, Ledger::get().device(device).account.limit());
  return result;
}

// ---- the ends of contexts

namespace {

int end_context(CUcontext context, int result) {
  if (result == CUDA_SUCCESS && context != nullptr) Ledger::get().end_context(context);
  return result;
}

/// The device's primary context; null if it is not there. The driver names it only to who holds it.
CUcontext primary_context(CUdevice device) {
  CUcontext context = nullptr;
  unsigned flags = 0;
  int is_there = 0;
  if (real.cuDevicePrimaryCtxGetState(device, &flags, &is_there) != CUDA_SUCCESS || is_there == 0 ||
      real.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
    return nullptr;
  (void)(real.cuDevicePrimaryCtxRelease_v2 != nullptr ? real.cuDevicePrimaryCtxRelease_v2(device)
                                                      : real.cuDevicePrimaryCtxRelease(device));
  return context;
}

/// It ends with the last one that holds it.
int release_primary(CUdevice device, int (*release)(CUdevice)) {
  const CUcontext context = primary_context(device);
  const int result = release(device);
  unsigned flags = 0;
  int is_there = 0;
  if (real.cuDevicePrimaryCtxGetState(device, &flags, &is_there) != CUDA_SUCCESS || is_there != 0)
    return result;
  return end_context(context, result);
}

}  // namespace

int hook::cuCtxDestroy(CUcontext context) noexcept {
  return end_context(context, real.cuCtxDestroy(context));
}

int hook::cuCtxDestroy_v2(CUcontext context) noexcept {
  return end_context(context, real.cuCtxDestroy_v2(context));
}

/// The thread's current one, which is current no longer if it has ended.
int hook::cuCtxDetach(CUcontext context) noexcept {
  const int result = real.cuCtxDetach(context);
  CUcontext current = nullptr;
  if (result != CUDA_SUCCESS || real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current == context)
    return result;
  return end_context(context, result);
}

int hook::cuDevicePrimaryCtxRelease(CUdevice device) noexcept {
  return release_primary(device, real.cuDevicePrimaryCtxRelease);
}

int hook::cuDevicePrimaryCtxRelease_v2(CUdevice device) noexcept {
  return release_primary(device, real.cuDevicePrimaryCtxRelease_v2);
}

int hook::cuDevicePrimaryCtxReset(CUdevice device) noexcept {
  const CUcontext context = primary_context(device);
  return end_context(context, real.cuDevicePrimaryCtxReset(device));
}

int hook::cuDevicePrimaryCtxReset_v2(CUdevice device) noexcept {
  const CUcontext context = primary_context(device);
  return end_context(context, real.cuDevicePrimaryCtxReset_v2(device));
}

}  // namespace gpupool::audit
