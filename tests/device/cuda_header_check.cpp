// SPDX-License-Identifier: Apache-2.0
// Compares device/cuda/types.hpp with a real cuda.h. Compiling it is the test; there is nothing to run. Needs
// cuda.h (13.0, for the forms of cuStreamGetCaptureInfo) in the include path.
#include <cstddef>
#include <type_traits>

#include "device/cuda/types.hpp"

// Makes cuda.h declare every exported name as it is, the older versions of functions too.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

namespace ours = gpupool::internal::cuda;

// ---- types: the driver's type for each of ours

template <typename Ours>
struct Real {
  using type = Ours;
};
template <typename Ours>
using real_t = typename Real<Ours>::type;

template <typename Pointee>
struct Real<Pointee*> {
  using type = real_t<Pointee>*;
};
template <typename Ours>
struct Real<const Ours> {
  using type = const real_t<Ours>;
};
template <typename Result, typename... Arguments>
struct Real<Result(Arguments...)> {
  using type = real_t<Result>(real_t<Arguments>...);
};

#define REAL_TYPE(name)     \
  template <>               \
  struct Real<ours::name> { \
    using type = ::name;    \
  };
REAL_TYPE(CUresult)
REAL_TYPE(CUdevice_attribute)
REAL_TYPE(CUmemAllocationType)
REAL_TYPE(CUmemAllocationHandleType)
REAL_TYPE(CUmemLocationType)
REAL_TYPE(CUmemAccess_flags)
REAL_TYPE(CUmemAllocationGranularity_flags)
REAL_TYPE(CUstreamCaptureStatus)
REAL_TYPE(CUstreamCaptureMode)
REAL_TYPE(CUuuid)
REAL_TYPE(CUmemLocation)
REAL_TYPE(CUmemAllocationProp)
REAL_TYPE(CUmemAccessDesc)
REAL_TYPE(CUgraphEdgeData)
REAL_TYPE(CUctx_st)
REAL_TYPE(CUstream_st)
REAL_TYPE(CUevent_st)
REAL_TYPE(CUgraph_st)
REAL_TYPE(CUgraphNode_st)
REAL_TYPE(CUmod_st)
REAL_TYPE(CUfunc_st)

// Integers have no names of their own: they must be the same types.
static_assert(std::is_same_v<ours::CUdevice, ::CUdevice>);
static_assert(std::is_same_v<ours::CUdeviceptr, ::CUdeviceptr>);
static_assert(std::is_same_v<ours::CUmemGenericAllocationHandle, ::CUmemGenericAllocationHandle>);

#define SAME_ENUM(name)                   \
  static_assert(std::is_enum_v<::name> && \
                std::is_same_v<std::underlying_type_t<ours::name>, std::underlying_type_t<::name>>);
SAME_ENUM(CUresult)
SAME_ENUM(CUdevice_attribute)
SAME_ENUM(CUmemAllocationType)
SAME_ENUM(CUmemAllocationHandleType)
SAME_ENUM(CUmemLocationType)
SAME_ENUM(CUmemAccess_flags)
SAME_ENUM(CUmemAllocationGranularity_flags)
SAME_ENUM(CUstreamCaptureStatus)
SAME_ENUM(CUstreamCaptureMode)

// ---- layouts

#define SAME_SIZE(name)                                                                           \
  static_assert(sizeof(ours::name) == sizeof(::name) && alignof(ours::name) == alignof(::name) && \
                std::is_standard_layout_v<ours::name>);
#define SAME_MEMBER(name, member)                                           \
  static_assert(offsetof(ours::name, member) == offsetof(::name, member) && \
                sizeof(ours::name::member) == sizeof(::name::member) &&     \
                std::is_same_v<real_t<decltype(ours::name::member)>, decltype(::name::member)>);
// Of a struct without a name, in which only places and sizes can be compared.
#define SAME_PLACE(name, outer, member)                                                 \
  static_assert(offsetof(ours::name, outer.member) == offsetof(::name, outer.member) && \
                sizeof(ours::name{}.outer.member) == sizeof(::name{}.outer.member));
SAME_SIZE(CUuuid)
SAME_MEMBER(CUuuid, bytes)
SAME_SIZE(CUmemLocation)
SAME_MEMBER(CUmemLocation, type)
SAME_MEMBER(CUmemLocation, id)
SAME_SIZE(CUmemAccessDesc)
SAME_MEMBER(CUmemAccessDesc, location)
SAME_MEMBER(CUmemAccessDesc, flags)
SAME_SIZE(CUmemAllocationProp)
SAME_MEMBER(CUmemAllocationProp, type)
SAME_MEMBER(CUmemAllocationProp, requestedHandleTypes)
SAME_MEMBER(CUmemAllocationProp, location)
SAME_MEMBER(CUmemAllocationProp, win32HandleMetaData)
SAME_PLACE(CUmemAllocationProp, allocFlags, compressionType)
SAME_PLACE(CUmemAllocationProp, allocFlags, gpuDirectRDMACapable)
SAME_PLACE(CUmemAllocationProp, allocFlags, usage)
SAME_PLACE(CUmemAllocationProp, allocFlags, reserved)

// ---- numbers

#define SAME_NUMBER(name) static_assert(static_cast<long long>(ours::name) == static_cast<long long>(::name));
SAME_NUMBER(CUDA_SUCCESS)
SAME_NUMBER(CUDA_ERROR_INVALID_VALUE)
SAME_NUMBER(CUDA_ERROR_OUT_OF_MEMORY)
SAME_NUMBER(CUDA_ERROR_NOT_INITIALIZED)
SAME_NUMBER(CUDA_ERROR_DEINITIALIZED)
SAME_NUMBER(CUDA_ERROR_STUB_LIBRARY)
SAME_NUMBER(CUDA_ERROR_DEVICE_UNAVAILABLE)
SAME_NUMBER(CUDA_ERROR_NO_DEVICE)
SAME_NUMBER(CUDA_ERROR_INVALID_DEVICE)
SAME_NUMBER(CUDA_ERROR_INVALID_CONTEXT)
SAME_NUMBER(CUDA_ERROR_CONTEXT_IS_DESTROYED)
SAME_NUMBER(CUDA_ERROR_INVALID_HANDLE)
SAME_NUMBER(CUDA_ERROR_NOT_READY)
SAME_NUMBER(CUDA_ERROR_ILLEGAL_ADDRESS)
SAME_NUMBER(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
SAME_NUMBER(CUDA_ERROR_NOT_PERMITTED)
SAME_NUMBER(CUDA_ERROR_NOT_SUPPORTED)
SAME_NUMBER(CUDA_ERROR_SYSTEM_NOT_READY)
SAME_NUMBER(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
SAME_NUMBER(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE)
SAME_NUMBER(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
SAME_NUMBER(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
SAME_NUMBER(CUDA_ERROR_CAPTURED_EVENT)
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_INTEGRATED)
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY)
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)
SAME_NUMBER(CU_MEM_ALLOCATION_TYPE_PINNED)
SAME_NUMBER(CU_MEM_HANDLE_TYPE_NONE)
SAME_NUMBER(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
SAME_NUMBER(CU_MEM_LOCATION_TYPE_DEVICE)
SAME_NUMBER(CU_MEM_ACCESS_FLAGS_PROT_NONE)
SAME_NUMBER(CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
SAME_NUMBER(CU_MEM_ALLOC_GRANULARITY_MINIMUM)
SAME_NUMBER(CU_STREAM_CAPTURE_STATUS_NONE)
SAME_NUMBER(CU_STREAM_CAPTURE_STATUS_ACTIVE)
SAME_NUMBER(CU_STREAM_CAPTURE_STATUS_INVALIDATED)
SAME_NUMBER(CU_STREAM_CAPTURE_MODE_GLOBAL)
SAME_NUMBER(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
SAME_NUMBER(CU_STREAM_CAPTURE_MODE_RELAXED)
SAME_NUMBER(CU_EVENT_DISABLE_TIMING)
SAME_NUMBER(CU_STREAM_NON_BLOCKING)
SAME_NUMBER(CU_MEM_ATTACH_GLOBAL)
static_assert(ours::kMemHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(ours::kMemHostAllocDeviceMap == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(ours::kMemHostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(ours::kMemHostRegisterDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);

// Handles that are numbers in disguise, which no constant expression may look at: compared as text.
constexpr bool same_text(const char* left, const char* right) {
  while (*left != '\0' && *left == *right) ++left, ++right;
  return *left == *right;
}
#define TEXT_OF(...) #__VA_ARGS__
#define EXPANDED_TEXT_OF(...) TEXT_OF(__VA_ARGS__)
static_assert(ours::kStreamLegacy == 1 && same_text(EXPANDED_TEXT_OF(CU_STREAM_LEGACY), "((CUstream)0x1)"));
static_assert(ours::kStreamPerThread == 2 &&
              same_text(EXPANDED_TEXT_OF(CU_STREAM_PER_THREAD), "((CUstream)0x2)"));

// ---- functions, by their exported names

namespace gpupool::internal::cuda {
#define SAME_FUNCTION(name, ...) static_assert(std::is_same_v<real_t<__VA_ARGS__>, decltype(::name)>, #name);
GPUPOOL_CUDA_FUNCTIONS(SAME_FUNCTION)
SAME_FUNCTION(cuDeviceGetUuid_v2, DeviceGetUuidV2)
SAME_FUNCTION(cuCtxGetId, CtxGetId)
SAME_FUNCTION(cuStreamGetCaptureInfo_v2, StreamGetCaptureInfoV2)
SAME_FUNCTION(cuStreamGetCaptureInfo_v3, StreamGetCaptureInfoV3)
}  // namespace gpupool::internal::cuda
