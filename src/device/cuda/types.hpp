// SPDX-License-Identifier: Apache-2.0
// The CUDA driver's types, numbers and functions, as far as this library uses them.
//
// Declared here so that building needs no part of CUDA. Types, enumerators and functions have the driver's
// own names, in a namespace; a macro of cuda.h is a kConstant here. The layouts are part of the driver's
// stable ABI, and tests/device/cuda_header_check.cpp compares every line with a real cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupool::internal::cuda {

// A device's number, counted from 0.
using CUdevice = int;
struct CUuuid {
  char bytes[16];
};
using CUdeviceptr = unsigned long long;
using CUmemGenericAllocationHandle = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphEdgeData = struct CUgraphEdgeData_st;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;

enum CUresult : unsigned {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_NOT_PERMITTED = 800,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_SYSTEM_NOT_READY = 802,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
  CUDA_ERROR_CAPTURED_EVENT = 907,
};

enum CUdevice_attribute : unsigned {
  CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
  CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
  CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110,
};

enum CUmemAllocationType : unsigned {
  CU_MEM_ALLOCATION_TYPE_PINNED = 0x1,
};

enum CUmemAllocationHandleType : unsigned {
  CU_MEM_HANDLE_TYPE_NONE = 0x0,
  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 0x1,
};

enum CUmemLocationType : unsigned {
  CU_MEM_LOCATION_TYPE_DEVICE = 0x1,
};

enum CUmemAccess_flags : unsigned {
  CU_MEM_ACCESS_FLAGS_PROT_NONE = 0x0,
  CU_MEM_ACCESS_FLAGS_PROT_READ = 0x1,
  CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 0x3,
};

enum CUmemAllocationGranularity_flags : unsigned {
  CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0x0,
};

enum CUstreamCaptureStatus : unsigned {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
};

enum CUstreamCaptureMode : unsigned {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2,
};

inline constexpr unsigned CU_EVENT_DISABLE_TIMING = 0x2;
inline constexpr unsigned CU_STREAM_NON_BLOCKING = 0x1;
inline constexpr unsigned CU_MEM_ATTACH_GLOBAL = 0x1;
inline constexpr unsigned kMemHostAllocPortable = 0x01;
inline constexpr unsigned kMemHostAllocDeviceMap = 0x02;
inline constexpr unsigned kMemHostRegisterPortable = 0x01;
inline constexpr unsigned kMemHostRegisterDeviceMap = 0x02;
// Stream handles with a special meaning in the driver's current context.
inline constexpr uintptr_t kStreamLegacy = 0x1;
inline constexpr uintptr_t kStreamPerThread = 0x2;

struct CUmemLocation {
  CUmemLocationType type;
  int id;
};

struct CUmemAllocationProp {
  CUmemAllocationType type;
  CUmemAllocationHandleType requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType;
    unsigned char gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};

struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};

}  // namespace gpupool::internal::cuda

/// Every driver function in use, by its exact exported name, with its type. cuStreamGetCaptureInfo has two
/// forms, and a driver may lack one of them, so it is not in this list.
#define GPUPOOL_CUDA_FUNCTIONS(X)                                                                      \
  X(cuInit, CUresult(unsigned))                                                                        \
  X(cuDriverGetVersion, CUresult(int*))                                                                \
  X(cuGetErrorName, CUresult(CUresult, const char**))                                                  \
  X(cuGetErrorString, CUresult(CUresult, const char**))                                                \
  X(cuDeviceGetCount, CUresult(int*))                                                                  \
  X(cuDeviceGetName, CUresult(char*, int, CUdevice))                                                   \
  X(cuDeviceGetAttribute, CUresult(int*, CUdevice_attribute, CUdevice))                                \
  X(cuDeviceTotalMem_v2, CUresult(size_t*, CUdevice))                                                  \
  X(cuDeviceCanAccessPeer, CUresult(int*, CUdevice, CUdevice))                                         \
  X(cuDevicePrimaryCtxRetain, CUresult(CUcontext*, CUdevice))                                          \
  X(cuDevicePrimaryCtxRelease_v2, CUresult(CUdevice))                                                  \
  X(cuDevicePrimaryCtxGetState, CUresult(CUdevice, unsigned*, int*))                                   \
  X(cuCtxGetCurrent, CUresult(CUcontext*))                                                             \
  X(cuCtxGetDevice, CUresult(CUdevice*))                                                               \
  X(cuCtxPushCurrent_v2, CUresult(CUcontext))                                                          \
  X(cuCtxPopCurrent_v2, CUresult(CUcontext*))                                                          \
  X(cuCtxEnablePeerAccess, CUresult(CUcontext, unsigned))                                              \
  X(cuThreadExchangeStreamCaptureMode, CUresult(CUstreamCaptureMode*))                                 \
  X(cuMemGetInfo_v2, CUresult(size_t*, size_t*))                                                       \
  X(cuMemAddressReserve, CUresult(CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long))      \
  X(cuMemAddressFree, CUresult(CUdeviceptr, size_t))                                                   \
  X(cuMemCreate,                                                                                       \
    CUresult(CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long))   \
  X(cuMemRelease, CUresult(CUmemGenericAllocationHandle))                                              \
  X(cuMemMap, CUresult(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long)) \
  X(cuMemUnmap, CUresult(CUdeviceptr, size_t))                                                         \
  X(cuMemSetAccess, CUresult(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t))                     \
  X(cuMemExportToShareableHandle,                                                                      \
    CUresult(void*, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long))      \
  X(cuMemImportFromShareableHandle,                                                                    \
    CUresult(CUmemGenericAllocationHandle*, void*, CUmemAllocationHandleType))                         \
  X(cuMemGetAllocationGranularity,                                                                     \
    CUresult(size_t*, const CUmemAllocationProp*, CUmemAllocationGranularity_flags))                   \
  X(cuMemAlloc_v2, CUresult(CUdeviceptr*, size_t))                                                     \
  X(cuMemFree_v2, CUresult(CUdeviceptr))                                                               \
  X(cuMemHostAlloc, CUresult(void**, size_t, unsigned))                                                \
  X(cuMemFreeHost, CUresult(void*))                                                                    \
  X(cuMemHostRegister_v2, CUresult(void*, size_t, unsigned))                                           \
  X(cuMemHostUnregister, CUresult(void*))                                                              \
  X(cuMemAllocManaged, CUresult(CUdeviceptr*, size_t, unsigned))                                       \
  X(cuMemcpyAsync, CUresult(CUdeviceptr, CUdeviceptr, size_t, CUstream))                               \
  X(cuMemsetD8Async, CUresult(CUdeviceptr, unsigned char, size_t, CUstream))                           \
  X(cuMemsetD32Async, CUresult(CUdeviceptr, unsigned int, size_t, CUstream))                           \
  X(cuModuleLoadData, CUresult(CUmodule*, const void*))                                                \
  X(cuModuleUnload, CUresult(CUmodule))                                                                \
  X(cuModuleGetFunction, CUresult(CUfunction*, CUmodule, const char*))                                 \
  X(cuLaunchKernel, CUresult(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,   \
                             unsigned, CUstream, void**, void**))                                      \
  X(cuEventCreate, CUresult(CUevent*, unsigned))                                                       \
  X(cuEventDestroy_v2, CUresult(CUevent))                                                              \
  X(cuEventRecord, CUresult(CUevent, CUstream))                                                        \
  X(cuEventQuery, CUresult(CUevent))                                                                   \
  X(cuEventSynchronize, CUresult(CUevent))                                                             \
  X(cuStreamCreate, CUresult(CUstream*, unsigned))                                                     \
  X(cuStreamDestroy_v2, CUresult(CUstream))                                                            \
  X(cuStreamIsCapturing, CUresult(CUstream, CUstreamCaptureStatus*))                                   \
  X(cuStreamGetCtx, CUresult(CUstream, CUcontext*))                                                    \
  X(cuStreamSynchronize, CUresult(CUstream))                                                           \
  X(cuStreamWaitEvent, CUresult(CUstream, CUevent, unsigned))

namespace gpupool::internal::cuda {

/// cuDeviceGetUuid_v2, since CUDA 11.4: of a MIG instance too.
using DeviceGetUuidV2 = CUresult(CUuuid*, CUdevice);

/// cuCtxGetId, since CUDA 12.0. No other context of the process ever has the same number.
using CtxGetId = CUresult(CUcontext, unsigned long long*);

/// cuStreamGetCaptureInfo_v2, since CUDA 11.3.
using StreamGetCaptureInfoV2 = CUresult(CUstream, CUstreamCaptureStatus*, uint64_t*, CUgraph*,
                                        const CUgraphNode**, size_t*);

/// cuStreamGetCaptureInfo_v3, since CUDA 12.3.
using StreamGetCaptureInfoV3 = CUresult(CUstream, CUstreamCaptureStatus*, uint64_t*, CUgraph*,
                                        const CUgraphNode**, const CUgraphEdgeData**, size_t*);

}  // namespace gpupool::internal::cuda
