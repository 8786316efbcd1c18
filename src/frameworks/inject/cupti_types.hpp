// SPDX-License-Identifier: Apache-2.0
// CUPTI's callbacks, as far as this library uses them, under its own names: the same in all versions
// from 11.8 to 13. tests/device/cupti_header_check.cpp compares every line with the real headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "frameworks/driver.hpp"

/// Every function of the driver that is watched, with its number among CUPTI's callbacks and its arguments.
#define GPUPOOL_WATCHED_FUNCTIONS(X)                            \
  X(cuMemAlloc_v2, 243, cuMemAlloc_v2)                          \
  X(cuMemAllocPitch_v2, 244, cuMemAllocPitch_v2)                \
  X(cuMemAllocManaged, 371, cuMemAllocManaged)                  \
  X(cuMemAllocHost_v2, 294, cuMemAllocHost_v2)                  \
  X(cuMemHostAlloc, 39, cuMemHostAlloc)                         \
  X(cuMemHostAlloc_v2, 271, cuMemHostAlloc)                     \
  X(cuMemAllocAsync, 598, cuMemAllocAsync)                      \
  X(cuMemAllocAsync_ptsz, 599, cuMemAllocAsync)                 \
  X(cuMemAllocFromPoolAsync, 611, cuMemAllocFromPoolAsync)      \
  X(cuMemAllocFromPoolAsync_ptsz, 612, cuMemAllocFromPoolAsync) \
  X(cuMemFree_v2, 245, cuMemFree_v2)                            \
  X(cuMemFreeHost, 38, cuMemFreeHost)                           \
  X(cuMemFreeAsync, 600, cuMemFreeAsync)                        \
  X(cuMemFreeAsync_ptsz, 601, cuMemFreeAsync)                   \
  X(cuMemCreate, 549, cuMemCreate)                              \
  X(cuMemRelease, 550, cuMemRelease)                            \
  X(cuMemMap, 551, cuMemMap)                                    \
  X(cuMemUnmap, 552, cuMemUnmap)

namespace gpupool::inject::cupti {

using namespace driver;

// The names are CUPTI's own. NOLINTBEGIN(readability-identifier-naming)
using CUptiResult = int;
using CUpti_SubscriberHandle = struct CUpti_Subscriber_st*;
using CUpti_CallbackId = uint32_t;
using CUpti_CallbackFunc = void (*)(void* user, unsigned domain, CUpti_CallbackId id, const void* data);

inline constexpr CUptiResult CUPTI_SUCCESS = 0;
inline constexpr CUptiResult CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39;

enum CUpti_CallbackDomain : unsigned { CUPTI_CB_DOMAIN_DRIVER_API = 1, CUPTI_CB_DOMAIN_RESOURCE = 3 };
enum CUpti_ApiCallbackSite : unsigned { CUPTI_API_ENTER = 0, CUPTI_API_EXIT = 1 };
inline constexpr CUpti_CallbackId CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING = 2;

struct CUpti_CallbackData {
  CUpti_ApiCallbackSite callbackSite;
  const char* functionName;
  const void* functionParams;
  void* functionReturnValue;  // at the exit of a driver's function: a CUresult
  const char* symbolName;
  CUcontext context;  // null: none is current
  uint32_t contextUid;
  uint64_t* correlationData;
  uint32_t correlationId;
};

struct CUpti_ResourceData {
  CUcontext context;
  void* resourceHandle;
  void* resourceDescriptor;
};

enum : CUpti_CallbackId {
// A value has no brackets to spare: NOLINTNEXTLINE(bugprone-macro-parentheses)
#define GPUPOOL_NUMBER(name, number, arguments) CUPTI_DRIVER_TRACE_CBID_##name = number,
  GPUPOOL_WATCHED_FUNCTIONS(GPUPOOL_NUMBER)
#undef GPUPOOL_NUMBER
};

// Arguments of the driver's functions, as the callbacks get them.

struct cuMemAlloc_v2_params {
  CUdeviceptr* dptr;
  size_t bytesize;
};
struct cuMemAllocPitch_v2_params {
  CUdeviceptr* dptr;
  size_t* pPitch;
  size_t WidthInBytes;
  size_t Height;
  unsigned ElementSizeBytes;
};
struct cuMemAllocManaged_params {
  CUdeviceptr* dptr;
  size_t bytesize;
  unsigned flags;
};
struct cuMemAllocHost_v2_params {
  void** pp;
  size_t bytesize;
};
struct cuMemHostAlloc_params {
  void** pp;
  size_t bytesize;
  unsigned Flags;
};
struct cuMemAllocAsync_params {
  CUdeviceptr* dptr;
  size_t bytesize;
  CUstream hStream;
};
struct cuMemAllocFromPoolAsync_params {
  CUdeviceptr* dptr;
  size_t bytesize;
  CUmemoryPool pool;
  CUstream hStream;
};
struct cuMemFree_v2_params {
  CUdeviceptr dptr;
};
struct cuMemFreeHost_params {
  void* p;
};
struct cuMemFreeAsync_params {
  CUdeviceptr dptr;
  CUstream hStream;
};
struct cuMemCreate_params {
  CUmemGenericAllocationHandle* handle;
  size_t size;
  const CUmemProp* prop;
  unsigned long long flags;
};
struct cuMemMap_params {
  CUdeviceptr ptr;
  size_t size;
  size_t offset;
  CUmemGenericAllocationHandle handle;
  unsigned long long flags;
};
struct cuMemUnmap_params {
  CUdeviceptr ptr;
  size_t size;
};
struct cuMemRelease_params {
  CUmemGenericAllocationHandle handle;
};
// NOLINTEND(readability-identifier-naming)

}  // namespace gpupool::inject::cupti

/// Every function in use, by its exported name, with its arguments.
#define GPUPOOL_CUPTI_FUNCTIONS(X)                                                                   \
  X(cuptiSubscribe, (CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*))                            \
  X(cuptiUnsubscribe, (CUpti_SubscriberHandle))                                                      \
  X(cuptiEnableCallback, (uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId)) \
  X(cuptiGetResultString, (CUptiResult, const char**))
