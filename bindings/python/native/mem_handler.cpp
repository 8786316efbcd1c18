// SPDX-License-Identifier: Apache-2.0
// The device memory handler that cuQuantum and cuDSS call: see glue.h.
#include <gpupool/mem_handler.hpp>

#include <cstddef>

extern "C" {
#include "glue.h"
}

namespace {

/// As all of these libraries declare it.
struct Handler {
  void* ctx;
  int (*device_alloc)(void*, void**, std::size_t, void*);
  int (*device_free)(void*, void*, std::size_t, void*);
  char name[8];
};

}  // namespace

extern "C" gpupool_status_t gpupool_py_mem_handler(int device, uintptr_t* out_functions) {
  gpupool_t* pool = nullptr;
  const gpupool_status_t status = gpupool_default_pool(device, &pool);
  if (status != GPUPOOL_SUCCESS) return status;
  const auto handler = gpupool::mem_handler<Handler>(pool);
  out_functions[0] = reinterpret_cast<uintptr_t>(handler.ctx);
  out_functions[1] = reinterpret_cast<uintptr_t>(handler.device_alloc);
  out_functions[2] = reinterpret_cast<uintptr_t>(handler.device_free);
  return GPUPOOL_SUCCESS;
}
