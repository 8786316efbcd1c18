// SPDX-License-Identifier: Apache-2.0
// A pool of UMF that takes its memory from a pool of gpupool. Link umf, gpupool.
#include <gpupool/umf.hpp>

#include <umf/memory_pool.h>
#include <umf/memory_provider.h>
#include <umf/pools/pool_disjoint.h>

#include <cstdio>

int main() {
  umf_memory_provider_handle_t provider = nullptr;
  umf_disjoint_pool_params_handle_t params = nullptr;
  umf_memory_pool_handle_t pool = nullptr;
  if (umfMemoryProviderCreate(gpupool::umf_provider_ops(), gpupool::plug::default_pool(0), &provider) != 0)
    return 1;
  if (umfDisjointPoolParamsCreate(&params) != 0) return 1;
  if (umfPoolCreate(umfDisjointPoolOps(), provider, params, 0, &pool) != 0) return 1;
  void* ptr = umfPoolMalloc(pool, 1 << 20);
  std::printf("%p is of the GPU\n", ptr);
  umfPoolFree(pool, ptr);
  umfPoolDestroy(pool);
  umfDisjointPoolParamsDestroy(params);
  umfMemoryProviderDestroy(provider);
}
