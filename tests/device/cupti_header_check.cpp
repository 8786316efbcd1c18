// SPDX-License-Identifier: Apache-2.0
// Compares what `gpupool record` declares of CUPTI with the real headers, of any version from 11.8. Compiling
// it is the test; there is nothing to run. Needs cupti.h and cuda.h in the include path.
#include <cstddef>
#include <type_traits>

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

#define SAME_NUMBER(name) static_assert(static_cast<long long>(ours::name) == static_cast<long long>(::name));
#define SAME_SIZE(name) \
  static_assert(sizeof(ours::name) == sizeof(::name) && alignof(ours::name) == alignof(::name));
#define SAME_MEMBER(name, member)                                           \
  static_assert(offsetof(ours::name, member) == offsetof(::name, member) && \
                sizeof(ours::name::member) == sizeof(::name::member));

SAME_NUMBER(CUPTI_SUCCESS)
SAME_NUMBER(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
SAME_NUMBER(CUPTI_CB_DOMAIN_DRIVER_API)
SAME_NUMBER(CUPTI_CB_DOMAIN_RESOURCE)
SAME_NUMBER(CUPTI_API_ENTER)
SAME_NUMBER(CUPTI_API_EXIT)
SAME_NUMBER(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING)
SAME_SIZE(CUptiResult)
SAME_SIZE(CUpti_CallbackId)
SAME_SIZE(CUpti_CallbackDomain)
SAME_SIZE(CUpti_CallbackData)
SAME_MEMBER(CUpti_CallbackData, callbackSite)
SAME_MEMBER(CUpti_CallbackData, functionName)
SAME_MEMBER(CUpti_CallbackData, functionParams)
SAME_MEMBER(CUpti_CallbackData, functionReturnValue)
SAME_MEMBER(CUpti_CallbackData, symbolName)
SAME_MEMBER(CUpti_CallbackData, context)
SAME_MEMBER(CUpti_CallbackData, contextUid)
SAME_MEMBER(CUpti_CallbackData, correlationData)
SAME_MEMBER(CUpti_CallbackData, correlationId)
SAME_SIZE(CUpti_ResourceData)
SAME_MEMBER(CUpti_ResourceData, context)
SAME_MEMBER(CUpti_ResourceData, resourceHandle)
SAME_MEMBER(CUpti_ResourceData, resourceDescriptor)

#define SAME_CALL(name, number, arguments)    \
  SAME_NUMBER(CUPTI_DRIVER_TRACE_CBID_##name) \
  SAME_SIZE(arguments##_params)
GPUPOOL_WATCHED_FUNCTIONS(SAME_CALL)
SAME_MEMBER(cuMemAlloc_v2_params, dptr)
SAME_MEMBER(cuMemAlloc_v2_params, bytesize)
SAME_MEMBER(cuMemAllocPitch_v2_params, dptr)
SAME_MEMBER(cuMemAllocPitch_v2_params, pPitch)
SAME_MEMBER(cuMemAllocPitch_v2_params, WidthInBytes)
SAME_MEMBER(cuMemAllocPitch_v2_params, Height)
SAME_MEMBER(cuMemAllocPitch_v2_params, ElementSizeBytes)
SAME_MEMBER(cuMemAllocManaged_params, dptr)
SAME_MEMBER(cuMemAllocManaged_params, bytesize)
SAME_MEMBER(cuMemAllocHost_v2_params, pp)
SAME_MEMBER(cuMemAllocHost_v2_params, bytesize)
SAME_MEMBER(cuMemHostAlloc_params, pp)
SAME_MEMBER(cuMemHostAlloc_params, bytesize)
SAME_MEMBER(cuMemAllocAsync_params, dptr)
SAME_MEMBER(cuMemAllocAsync_params, bytesize)
SAME_MEMBER(cuMemAllocAsync_params, hStream)
SAME_MEMBER(cuMemAllocFromPoolAsync_params, dptr)
SAME_MEMBER(cuMemAllocFromPoolAsync_params, bytesize)
SAME_MEMBER(cuMemAllocFromPoolAsync_params, hStream)
SAME_MEMBER(cuMemFree_v2_params, dptr)
SAME_MEMBER(cuMemFreeHost_params, p)
SAME_MEMBER(cuMemFreeAsync_params, dptr)
SAME_MEMBER(cuMemCreate_params, handle)
SAME_MEMBER(cuMemCreate_params, size)
SAME_MEMBER(cuMemCreate_params, prop)
SAME_MEMBER(CUmemAllocationProp, location)
SAME_MEMBER(cuMemMap_params, ptr)
SAME_MEMBER(cuMemMap_params, size)
SAME_MEMBER(cuMemMap_params, handle)
SAME_MEMBER(cuMemUnmap_params, ptr)
SAME_MEMBER(cuMemUnmap_params, size)
SAME_MEMBER(cuMemRelease_params, handle)
// A function with the per-thread default stream has the arguments of the other.
static_assert(sizeof(cuMemAllocAsync_ptsz_params) == sizeof(cuMemAllocAsync_params));
static_assert(sizeof(cuMemAllocFromPoolAsync_ptsz_params) == sizeof(cuMemAllocFromPoolAsync_params));
static_assert(sizeof(cuMemFreeAsync_ptsz_params) == sizeof(cuMemFreeAsync_params));

// Functions: an enum is passed as the integer under it, and any pointer as any other.
template <typename Type>
struct Passed {
  using type = Type;
};
template <typename Type>
requires std::is_pointer_v<Type>
struct Passed<Type> {
  using type = void*;
};
template <typename Type>
requires std::is_enum_v<Type>
struct Passed<Type> {
  using type = std::make_unsigned_t<std::underlying_type_t<Type>>;
};
template <>
struct Passed<int> {
  using type = unsigned;
};
template <typename Function>
struct Arguments;
template <typename Result, typename... Each>
struct Arguments<Result(Each...)> {
  using type = void(typename Passed<Each>::type...);
};
namespace gpupool::inject::cupti {
#define SAME_FUNCTION(name, arguments) \
  static_assert(std::is_same_v<Arguments<int arguments>::type, Arguments<decltype(::name)>::type>, #name);
GPUPOOL_CUPTI_FUNCTIONS(SAME_FUNCTION)
}  // namespace gpupool::inject::cupti
