// SPDX-License-Identifier: Apache-2.0
// cuStateVec with a pool for what it needs besides the state. Link custatevec, cudart, gpupool.
#include <custatevec.h>

#include <gpupool/mem_handler.hpp>

int main() {
  custatevecHandle_t handle = nullptr;
  if (custatevecCreate(&handle) != CUSTATEVEC_STATUS_SUCCESS) return 1;
  const auto handler = gpupool::mem_handler<custatevecDeviceMemHandler_t>(gpupool::plug::default_pool(0));
  if (custatevecSetDeviceMemHandler(handle, &handler) != CUSTATEVEC_STATUS_SUCCESS) return 1;
  return custatevecDestroy(handle) == CUSTATEVEC_STATUS_SUCCESS ? 0 : 1;
}
