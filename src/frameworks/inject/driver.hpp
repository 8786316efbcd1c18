// SPDX-License-Identifier: Apache-2.0
// The driver's memory pools and devices, as far as this library uses them, under its own names.
// tests/device/run_header_check.cpp compares every line with a real cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "frameworks/driver.hpp"

namespace gpupool::inject {

using namespace driver;

inline constexpr int CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115;

struct CUmemPoolProps {
  unsigned allocType;
  unsigned handleTypes;
  struct {
    unsigned type;
    int id;
  } location;
  void* win32SecurityAttributes;
  size_t maxSize;  // 0: the driver's choice. Since CUDA 12.2; an older driver refuses any other value
  unsigned short usage;
  unsigned char reserved[54];
};

}  // namespace gpupool::inject

/// Every function in use, by its exported name, with its arguments.
#define GPUPOOL_INJECT_FUNCTIONS(X)                                    \
  X(cuDeviceGetCount, (int*))                                          \
  X(cuDeviceGetAttribute, (int*, int, CUdevice))                       \
  X(cuDeviceGetDefaultMemPool, (CUmemoryPool*, CUdevice))              \
  X(cuDeviceSetMemPool, (CUdevice, CUmemoryPool))                      \
  X(cuMemPoolCreate, (CUmemoryPool*, const CUmemPoolProps*))           \
  X(cuMemPoolDestroy, (CUmemoryPool))                                  \
  X(cuMemPoolSetAttribute, (CUmemoryPool, CUmemPool_attribute, void*)) \
  X(cuMemPoolTrimTo, (CUmemoryPool, size_t))

/// Those that say what a device is. The third may be missing.
#define GPUPOOL_DEVICE_FUNCTIONS(X)          \
  X(cuCtxGetDevice, (CUdevice*))             \
  X(cuDeviceGetName, (char*, int, CUdevice)) \
  X(cuDeviceGetUuid_v2, (CUuuid*, CUdevice)) \
  X(cuDeviceTotalMem_v2, (size_t*, CUdevice))
