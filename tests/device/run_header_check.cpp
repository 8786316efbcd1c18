// SPDX-License-Identifier: Apache-2.0
// Compares what `gpupool run`, `gpupool record` and `gpupool sleep --whole` declare of the driver with a real
// cuda.h. Compiling it is the test; there is nothing to run. Needs cuda.h of 12.8 or later in the include
// path.
#include <cstddef>
#include <type_traits>

#include "cli/processes/checkpoint_types.hpp"
#include "frameworks/inject/driver.hpp"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

namespace checkpoint = gpupool::cli::driver;
namespace inject = gpupool::inject;

#define SAME_NUMBER(scope, name) \
  static_assert(static_cast<long long>(scope::name) == static_cast<long long>(::name));
#define SAME_SIZE(scope, name) \
  static_assert(sizeof(scope::name) == sizeof(::name) && alignof(scope::name) == alignof(::name));
#define SAME_MEMBER(scope, name, member)                                     \
  static_assert(offsetof(scope::name, member) == offsetof(::name, member) && \
                sizeof(scope::name::member) == sizeof(::name::member));

SAME_NUMBER(checkpoint, CU_PROCESS_STATE_RUNNING)
SAME_NUMBER(checkpoint, CU_PROCESS_STATE_LOCKED)
SAME_NUMBER(checkpoint, CU_PROCESS_STATE_CHECKPOINTED)
SAME_NUMBER(checkpoint, CU_PROCESS_STATE_FAILED)
SAME_SIZE(checkpoint, CUprocessState)
SAME_SIZE(checkpoint, CUcheckpointLockArgs)
SAME_MEMBER(checkpoint, CUcheckpointLockArgs, timeoutMs)
SAME_MEMBER(checkpoint, CUcheckpointLockArgs, reserved0)
SAME_MEMBER(checkpoint, CUcheckpointLockArgs, reserved1)

SAME_NUMBER(inject, CUDA_SUCCESS)
SAME_NUMBER(inject, CUDA_ERROR_OUT_OF_MEMORY)
SAME_NUMBER(inject, CUDA_ERROR_NOT_INITIALIZED)
SAME_NUMBER(inject, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)
SAME_NUMBER(inject, CU_MEM_ALLOCATION_TYPE_PINNED)
SAME_NUMBER(inject, CU_MEM_LOCATION_TYPE_DEVICE)
SAME_NUMBER(inject, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
SAME_NUMBER(inject, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
SAME_NUMBER(inject, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
SAME_SIZE(inject, CUdevice)
SAME_SIZE(inject, CUuuid)
SAME_SIZE(inject, CUmemPool_attribute)
SAME_SIZE(inject, CUmemPoolProps)
SAME_MEMBER(inject, CUmemPoolProps, allocType)
SAME_MEMBER(inject, CUmemPoolProps, handleTypes)
SAME_MEMBER(inject, CUmemPoolProps, location)
SAME_MEMBER(inject, CUmemPoolProps, win32SecurityAttributes)
SAME_MEMBER(inject, CUmemPoolProps, maxSize)
SAME_MEMBER(inject, CUmemPoolProps, usage)
SAME_MEMBER(inject, CUmemPoolProps, reserved)

// Arguments: an enum is passed as the integer under it, and a pointer to one of the types above is as any.
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

#define SAME_FUNCTION(name, arguments) \
  static_assert(std::is_same_v<Arguments<int arguments>::type, Arguments<decltype(::name)>::type>, #name);
namespace gpupool::cli::driver {
GPUPOOL_CHECKPOINT_FUNCTIONS(SAME_FUNCTION)
}  // namespace gpupool::cli::driver
namespace gpupool::inject {
GPUPOOL_INJECT_FUNCTIONS(SAME_FUNCTION)
GPUPOOL_DEVICE_FUNCTIONS(SAME_FUNCTION)
}  // namespace gpupool::inject
