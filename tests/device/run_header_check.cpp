// SPDX-License-Identifier: Apache-2.0
// Compares what `gpupool run` with its hooks, `gpupool record` and `gpupool sleep --whole` declare of the
// driver with a real cuda.h. Compiling it is the test; there is nothing to run. Needs cuda.h of 12.8 or later
// in the include path.
#include "cli/processes/checkpoint_types.hpp"
#include "device/same_declaration.hpp"
#include "frameworks/audit/functions.hpp"
#include "frameworks/inject/driver.hpp"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

namespace audit = gpupool::audit;
namespace checkpoint = gpupool::cli::driver;
namespace driver = gpupool::driver;
namespace inject = gpupool::inject;

SAME_NUMBER(checkpoint, CU_PROCESS_STATE_RUNNING)
SAME_NUMBER(checkpoint, CU_PROCESS_STATE_LOCKED)
SAME_NUMBER(checkpoint, CU_PROCESS_STATE_CHECKPOINTED)
SAME_NUMBER(checkpoint, CU_PROCESS_STATE_FAILED)
SAME_SIZE(checkpoint, CUprocessState)
SAME_SIZE(checkpoint, CUcheckpointLockArgs)
SAME_MEMBER(checkpoint, CUcheckpointLockArgs, timeoutMs)
SAME_MEMBER(checkpoint, CUcheckpointLockArgs, reserved0)
SAME_MEMBER(checkpoint, CUcheckpointLockArgs, reserved1)

SAME_NUMBER(driver, CUDA_SUCCESS)
SAME_NUMBER(driver, CUDA_ERROR_OUT_OF_MEMORY)
SAME_NUMBER(driver, CUDA_ERROR_NOT_INITIALIZED)
SAME_NUMBER(inject, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)
SAME_NUMBER(driver, CU_MEM_ALLOCATION_TYPE_PINNED)
SAME_NUMBER(driver, CU_MEM_LOCATION_TYPE_DEVICE)
SAME_NUMBER(driver, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
SAME_NUMBER(driver, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
SAME_NUMBER(driver, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
SAME_SIZE(driver, CUdevice)
SAME_SIZE(driver, CUuuid)
SAME_SIZE(driver, CUdeviceptr)
SAME_SIZE(driver, CUmemGenericAllocationHandle)
SAME_SIZE(driver, CUmemPool_attribute)
SAME_SIZE(inject, CUmemPoolProps)
SAME_MEMBER(inject, CUmemPoolProps, allocType)
SAME_MEMBER(inject, CUmemPoolProps, handleTypes)
SAME_MEMBER(inject, CUmemPoolProps, location)
SAME_MEMBER(inject, CUmemPoolProps, win32SecurityAttributes)
SAME_MEMBER(inject, CUmemPoolProps, maxSize)
SAME_MEMBER(inject, CUmemPoolProps, usage)
SAME_MEMBER(inject, CUmemPoolProps, reserved)

SAME_NUMBER(audit, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)
SAME_NUMBER(audit, CU_STREAM_CAPTURE_MODE_RELAXED)
SAME_NUMBER(audit, CU_AD_FORMAT_UNSIGNED_INT16)
SAME_NUMBER(audit, CU_AD_FORMAT_UNSIGNED_INT32)
SAME_NUMBER(audit, CU_AD_FORMAT_SIGNED_INT16)
SAME_NUMBER(audit, CU_AD_FORMAT_SIGNED_INT32)
SAME_NUMBER(audit, CU_AD_FORMAT_HALF)
SAME_NUMBER(audit, CU_AD_FORMAT_FLOAT)
SAME_NUMBER(audit, CU_AD_FORMAT_BC1_UNORM)
SAME_NUMBER(audit, CU_AD_FORMAT_BC1_UNORM_SRGB)
SAME_NUMBER(audit, CU_AD_FORMAT_BC4_UNORM)
SAME_NUMBER(audit, CU_AD_FORMAT_BC4_SNORM)
SAME_NUMBER(audit, CU_AD_FORMAT_BC7_UNORM_SRGB)
SAME_NUMBER(audit, CU_AD_FORMAT_NV12)
SAME_NUMBER(audit, CU_AD_FORMAT_UNORM_INT16X1)
SAME_NUMBER(audit, CU_AD_FORMAT_UNORM_INT16X2)
SAME_NUMBER(audit, CU_AD_FORMAT_UNORM_INT16X4)
SAME_NUMBER(audit, CU_AD_FORMAT_SNORM_INT16X1)
SAME_NUMBER(audit, CU_AD_FORMAT_SNORM_INT16X2)
SAME_NUMBER(audit, CU_AD_FORMAT_SNORM_INT16X4)
static_assert(audit::kArrayLayered == CUDA_ARRAY3D_LAYERED);
static_assert(audit::kArrayCubemap == CUDA_ARRAY3D_CUBEMAP);
static_assert(audit::kArraySparse == CUDA_ARRAY3D_SPARSE);
static_assert(audit::kArrayDeferred == CUDA_ARRAY3D_DEFERRED_MAPPING);
SAME_SIZE(audit, CUDA_ARRAY_DESCRIPTOR)
SAME_MEMBER(audit, CUDA_ARRAY_DESCRIPTOR, Width)
SAME_MEMBER(audit, CUDA_ARRAY_DESCRIPTOR, Height)
SAME_MEMBER(audit, CUDA_ARRAY_DESCRIPTOR, Format)
SAME_MEMBER(audit, CUDA_ARRAY_DESCRIPTOR, NumChannels)
SAME_SIZE(audit, CUDA_ARRAY3D_DESCRIPTOR)
SAME_MEMBER(audit, CUDA_ARRAY3D_DESCRIPTOR, Depth)
SAME_MEMBER(audit, CUDA_ARRAY3D_DESCRIPTOR, Format)
SAME_MEMBER(audit, CUDA_ARRAY3D_DESCRIPTOR, NumChannels)
SAME_MEMBER(audit, CUDA_ARRAY3D_DESCRIPTOR, Flags)
static_assert(offsetof(driver::CUmemProp, type) == offsetof(CUmemAllocationProp, type));
static_assert(offsetof(driver::CUmemProp, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(driver::CUmemProp, type) == offsetof(CUmemPoolProps, allocType));
static_assert(offsetof(driver::CUmemProp, location) == offsetof(CUmemPoolProps, location));
static_assert(offsetof(driver::CUmemProp, location.id) == offsetof(CUmemPoolProps, location.id));

namespace gpupool::cli::driver {
GPUPOOL_CHECKPOINT_FUNCTIONS(SAME_FUNCTION)
}  // namespace gpupool::cli::driver
namespace gpupool::audit {
#define SAME_HOOKED(name, base, since, kind, arguments) SAME_FUNCTION(name, arguments)
GPUPOOL_HOOKED_OF_CUDA(SAME_HOOKED)
GPUPOOL_CALLED_OF_CUDA(SAME_FUNCTION)
}  // namespace gpupool::audit
namespace gpupool::inject {
GPUPOOL_INJECT_FUNCTIONS(SAME_FUNCTION)
GPUPOOL_DEVICE_FUNCTIONS(SAME_FUNCTION)
}  // namespace gpupool::inject
