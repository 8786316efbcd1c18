// SPDX-License-Identifier: Apache-2.0
// Every function that is hooked, in one table, from which the hooks' declarations, the real functions'
// pointers and the search for them are made; docs/run.md has the same names, which
// tests/audit/test_account.py checks.
#pragma once

#include "frameworks/audit/types.hpp"

/// Exported name; the name by which cuGetProcAddress gives it, and the CUDA version since which it does; what
/// it does; its arguments. NVML's have one name and no version. What is not here passes: memory of other
/// processes (cuIpcOpenMemHandle, cuImportExternalMemory), the host's, and addresses that take no memory
/// (cuMemAddressReserve).
#define GPUPOOL_HOOKED_OF_CUDA(X)                                                                        \
  X(cuGetProcAddress, cuGetProcAddress, 11030, finds, (const char*, void**, int, uint64_t))              \
  X(cuGetProcAddress_v2, cuGetProcAddress, 12000, finds, (const char*, void**, int, uint64_t, int*))     \
  X(cuMemAlloc_v2, cuMemAlloc, 3020, takes, (CUdeviceptr*, size_t))                                      \
  X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, takes, (CUdeviceptr*, size_t*, size_t, size_t, unsigned)) \
  X(cuMemFree_v2, cuMemFree, 3020, gives, (CUdeviceptr))                                                 \
  X(cuMemAllocManaged, cuMemAllocManaged, 6000, counts, (CUdeviceptr*, size_t, unsigned))                \
  X(cuMemAllocAsync, cuMemAllocAsync, 11020, takes, (CUdeviceptr*, size_t, CUstream))                    \
  X(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, takes, (CUdeviceptr*, size_t, CUstream))               \
  X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, takes,                                      \
    (CUdeviceptr*, size_t, CUmemoryPool, CUstream))                                                      \
  X(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, 11020, takes,                                 \
    (CUdeviceptr*, size_t, CUmemoryPool, CUstream))                                                      \
  X(cuMemFreeAsync, cuMemFreeAsync, 11020, gives, (CUdeviceptr, CUstream))                               \
  X(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, gives, (CUdeviceptr, CUstream))                          \
  X(cuMemPoolCreate, cuMemPoolCreate, 11020, counts, (CUmemoryPool*, const CUmemProp*))                  \
  X(cuMemPoolDestroy, cuMemPoolDestroy, 11020, gives, (CUmemoryPool))                                    \
  X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, gives, (CUmemoryPool, size_t))                              \
  X(cuMemCreate, cuMemCreate, 10020, takes,                                                              \
    (CUmemGenericAllocationHandle*, size_t, const CUmemProp*, unsigned long long))                       \
  X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, holds,                              \
    (CUmemGenericAllocationHandle*, void*))                                                              \
  X(cuMemMap, cuMemMap, 10020, holds,                                                                    \
    (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))                     \
  X(cuMemUnmap, cuMemUnmap, 10020, gives, (CUdeviceptr, size_t))                                         \
  X(cuMemRelease, cuMemRelease, 10020, gives, (CUmemGenericAllocationHandle))                            \
  X(cuArrayCreate_v2, cuArrayCreate, 3020, takes, (CUarray*, const CUDA_ARRAY_DESCRIPTOR*))              \
  X(cuArray3DCreate_v2, cuArray3DCreate, 3020, takes, (CUarray*, const CUDA_ARRAY3D_DESCRIPTOR*))        \
  X(cuArrayDestroy, cuArrayDestroy, 2000, gives, (CUarray))                                              \
  X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, takes,                                         \
    (CUmipmappedArray*, const CUDA_ARRAY3D_DESCRIPTOR*, unsigned))                                       \
  X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, gives, (CUmipmappedArray))                   \
  X(cuGraphLaunch, cuGraphLaunch, 10000, counts, (CUgraphExec, CUstream))                                \
  X(cuGraphLaunch_ptsz, cuGraphLaunch, 10000, counts, (CUgraphExec, CUstream))                           \
  X(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040, gives, (CUdevice))                                \
  X(cuMemGetInfo_v2, cuMemGetInfo, 3020, answers, (size_t*, size_t*))                                    \
  X(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, answers, (size_t*, CUdevice))                           \
  X(cuCtxDestroy_v2, cuCtxDestroy, 4000, ends, (CUcontext))                                              \
  X(cuCtxDestroy, cuCtxDestroy, 2000, ends, (CUcontext))                                                 \
  X(cuCtxDetach, cuCtxDetach, 2000, ends, (CUcontext))                                                   \
  X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, ends, (CUdevice))                    \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, ends, (CUdevice))                        \
  X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, ends, (CUdevice))                        \
  X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, ends, (CUdevice))
#define GPUPOOL_HOOKED(X)                                                 \
  GPUPOOL_HOOKED_OF_CUDA(X)                                               \
  X(nvmlDeviceGetMemoryInfo, , 0, answers, (nvmlDevice_t, nvmlMemory_t*)) \
  X(nvmlDeviceGetMemoryInfo_v2, , 0, answers, (nvmlDevice_t, nvmlMemory_v2_t*))

/// What this library calls itself.
#define GPUPOOL_CALLED_OF_CUDA(X)                              \
  X(cuDeviceGetCount, (int*))                                  \
  X(cuDeviceGetUuid, (CUuuid*, CUdevice))                      \
  X(cuDeviceGetUuid_v2, (CUuuid*, CUdevice))                   \
  X(cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))          \
  X(cuDevicePrimaryCtxGetState, (CUdevice, unsigned*, int*))   \
  X(cuCtxGetCurrent, (CUcontext*))                             \
  X(cuCtxGetDevice, (CUdevice*))                               \
  X(cuCtxPushCurrent_v2, (CUcontext))                          \
  X(cuCtxPopCurrent_v2, (CUcontext*))                          \
  X(cuStreamGetCtx, (CUstream, CUcontext*))                    \
  X(cuStreamIsCapturing, (CUstream, unsigned*))                \
  X(cuStreamIsCapturing_ptsz, (CUstream, unsigned*))           \
  X(cuDeviceGetMemPool, (CUmemoryPool*, CUdevice))             \
  X(cuDeviceGetDefaultMemPool, (CUmemoryPool*, CUdevice))      \
  X(cuMemPoolGetAttribute, (CUmemoryPool, unsigned, void*))    \
  X(cuDeviceGetGraphMemAttribute, (CUdevice, unsigned, void*)) \
  X(cuThreadExchangeStreamCaptureMode, (unsigned*))
#define GPUPOOL_CALLED(X)                                     \
  GPUPOOL_CALLED_OF_CUDA(X)                                   \
  X(nvmlInit_v2, ())                                          \
  X(nvmlDeviceGetCount_v2, (unsigned*))                       \
  X(nvmlDeviceGetHandleByIndex_v2, (unsigned, nvmlDevice_t*)) \
  X(nvmlDeviceGetUUID, (nvmlDevice_t, char*, unsigned))       \
  X(nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t, unsigned*, nvmlProcessInfo_t*))

namespace gpupool::audit {

/// The driver's functions themselves; null before it is loaded, and where it has no such function.
struct Real {
// A declaration has no brackets to spare: NOLINTNEXTLINE(bugprone-macro-parentheses)
#define GPUPOOL_MEMBER(name, arguments) int(*name) arguments = nullptr;
#define GPUPOOL_HOOKED_MEMBER(name, base, since, kind, arguments) GPUPOOL_MEMBER(name, arguments)
  GPUPOOL_HOOKED(GPUPOOL_HOOKED_MEMBER)
  GPUPOOL_CALLED(GPUPOOL_MEMBER)
#undef GPUPOOL_HOOKED_MEMBER
#undef GPUPOOL_MEMBER
};
extern Real real;

namespace hook {
// Their own names: NOLINTBEGIN(readability-identifier-naming)
#define GPUPOOL_DECLARE(name, base, since, kind, arguments) int name arguments noexcept;
GPUPOOL_HOOKED(GPUPOOL_DECLARE)
#undef GPUPOOL_DECLARE
// NOLINTEND(readability-identifier-naming)
}  // namespace hook

}  // namespace gpupool::audit
