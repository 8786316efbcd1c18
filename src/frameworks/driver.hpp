// SPDX-License-Identifier: Apache-2.0
// The driver's types and numbers that several of these libraries use, under its own names. Results are
// numbers, 0 if all went well. tests/device/run_header_check.cpp compares every line with a real cuda.h.
#pragma once

#include <cstddef>

namespace gpupool::driver {

// Their own names: NOLINTBEGIN(readability-identifier-naming)
enum : int { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NOT_INITIALIZED = 3 };

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUmemGenericAllocationHandle = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;

struct CUuuid {
  char bytes[16];
};

inline constexpr unsigned CU_MEM_ALLOCATION_TYPE_PINNED = 1;
inline constexpr unsigned CU_MEM_LOCATION_TYPE_DEVICE = 1;

enum CUmemPool_attribute : unsigned {
  CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
  CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
  CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
};

/// How CUmemAllocationProp and CUmemPoolProps begin.
struct CUmemProp {
  unsigned type;
  unsigned handleTypes;
  struct {
    unsigned type;
    int id;
  } location;
};
// NOLINTEND(readability-identifier-naming)

}  // namespace gpupool::driver
