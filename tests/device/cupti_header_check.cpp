// SPDX-License-Identifier: Apache-2.0
// Compares what `gpupool record` declares of CUPTI with the real headers, of any version from 11.8. Compiling
// it is the test; there is nothing to run. Needs cupti.h and cuda.h in the include path.
#include "device/same_declaration.hpp"
#include "frameworks/inject/cupti_types.hpp"

#define __CUDA_API_VERSION_INTERNAL
// Types of the compiler for devices, which is not here: nothing of ours depends on them.
#define __DEVICE_TYPES_H__
#define __DRIVER_TYPES_H__
#define __SURFACE_TYPES_H__
#define __TEXTURE_TYPES_H__
#define __VECTOR_TYPES_H__
#include <cuda.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <generated_cuda_meta.h>

namespace ours = gpupool::inject::cupti;

SAME_NUMBER(ours, CUPTI_SUCCESS)
SAME_NUMBER(ours, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
SAME_NUMBER(ours, CUPTI_CB_DOMAIN_DRIVER_API)
SAME_NUMBER(ours, CUPTI_CB_DOMAIN_RESOURCE)
SAME_NUMBER(ours, CUPTI_API_ENTER)
SAME_NUMBER(ours, CUPTI_API_EXIT)
SAME_NUMBER(ours, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING)
SAME_SIZE(ours, CUptiResult)
SAME_SIZE(ours, CUpti_CallbackId)
SAME_SIZE(ours, CUpti_CallbackDomain)
SAME_SIZE(ours, CUpti_CallbackData)
SAME_MEMBER(ours, CUpti_CallbackData, callbackSite)
SAME_MEMBER(ours, CUpti_CallbackData, functionName)
SAME_MEMBER(ours, CUpti_CallbackData, functionParams)
SAME_MEMBER(ours, CUpti_CallbackData, functionReturnValue)
SAME_MEMBER(ours, CUpti_CallbackData, symbolName)
SAME_MEMBER(ours, CUpti_CallbackData, context)
SAME_MEMBER(ours, CUpti_CallbackData, contextUid)
SAME_MEMBER(ours, CUpti_CallbackData, correlationData)
SAME_MEMBER(ours, CUpti_CallbackData, correlationId)
SAME_SIZE(ours, CUpti_ResourceData)
SAME_MEMBER(ours, CUpti_ResourceData, context)
SAME_MEMBER(ours, CUpti_ResourceData, resourceHandle)
SAME_MEMBER(ours, CUpti_ResourceData, resourceDescriptor)

#define SAME_CALL(name, number, arguments)          \
  SAME_NUMBER(ours, CUPTI_DRIVER_TRACE_CBID_##name) \
  SAME_SIZE(ours, arguments##_params)
GPUPOOL_WATCHED_FUNCTIONS(SAME_CALL)
SAME_MEMBER(ours, cuMemAlloc_v2_params, dptr)
SAME_MEMBER(ours, cuMemAlloc_v2_params, bytesize)
SAME_MEMBER(ours, cuMemAllocPitch_v2_params, dptr)
SAME_MEMBER(ours, cuMemAllocPitch_v2_params, pPitch)
SAME_MEMBER(ours, cuMemAllocPitch_v2_params, WidthInBytes)
SAME_MEMBER(ours, cuMemAllocPitch_v2_params, Height)
SAME_MEMBER(ours, cuMemAllocPitch_v2_params, ElementSizeBytes)
SAME_MEMBER(ours, cuMemAllocManaged_params, dptr)
SAME_MEMBER(ours, cuMemAllocManaged_params, bytesize)
SAME_MEMBER(ours, cuMemAllocHost_v2_params, pp)
SAME_MEMBER(ours, cuMemAllocHost_v2_params, bytesize)
SAME_MEMBER(ours, cuMemHostAlloc_params, pp)
SAME_MEMBER(ours, cuMemHostAlloc_params, bytesize)
SAME_MEMBER(ours, cuMemAllocAsync_params, dptr)
SAME_MEMBER(ours, cuMemAllocAsync_params, bytesize)
SAME_MEMBER(ours, cuMemAllocAsync_params, hStream)
SAME_MEMBER(ours, cuMemAllocFromPoolAsync_params, dptr)
SAME_MEMBER(ours, cuMemAllocFromPoolAsync_params, bytesize)
SAME_MEMBER(ours, cuMemAllocFromPoolAsync_params, hStream)
SAME_MEMBER(ours, cuMemFree_v2_params, dptr)
SAME_MEMBER(ours, cuMemFreeHost_params, p)
SAME_MEMBER(ours, cuMemFreeAsync_params, dptr)
SAME_MEMBER(ours, cuMemCreate_params, handle)
SAME_MEMBER(ours, cuMemCreate_params, size)
SAME_MEMBER(ours, cuMemCreate_params, prop)
SAME_MEMBER(ours, cuMemMap_params, ptr)
SAME_MEMBER(ours, cuMemMap_params, size)
SAME_MEMBER(ours, cuMemMap_params, handle)
SAME_MEMBER(ours, cuMemUnmap_params, ptr)
SAME_MEMBER(ours, cuMemUnmap_params, size)
SAME_MEMBER(ours, cuMemRelease_params, handle)
// A function with the per-thread default stream has the arguments of the other.
static_assert(sizeof(cuMemAllocAsync_ptsz_params) == sizeof(cuMemAllocAsync_params));
static_assert(sizeof(cuMemAllocFromPoolAsync_ptsz_params) == sizeof(cuMemAllocFromPoolAsync_params));
static_assert(sizeof(cuMemFreeAsync_ptsz_params) == sizeof(cuMemFreeAsync_params));

namespace gpupool::inject::cupti {
GPUPOOL_CUPTI_FUNCTIONS(SAME_FUNCTION)
}  // namespace gpupool::inject::cupti
