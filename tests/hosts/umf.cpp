// SPDX-License-Identifier: Apache-2.0
// The real UMF over a pool: the provider itself, and UMF's own pools on top of it.
#include <gpupool/umf.hpp>

#include <umf/memory_pool.h>
#include <umf/memory_provider.h>
#include <umf/pools/pool_disjoint.h>
#include <umf/pools/pool_proxy.h>

#include <string>
#include <vector>

#include "expect.hpp"

namespace {

void provide(umf_memory_provider_handle_t provider, gpupool_t* pool) {
  void* ptr = nullptr;
  expect(umfMemoryProviderAlloc(provider, 1 << 20, 4096, &ptr) == UMF_RESULT_SUCCESS, "it provides");
  expect(reinterpret_cast<std::uintptr_t>(ptr) % 4096 == 0, "alignment is kept");
  expect(block_at(pool, ptr).requested_bytes == 1 << 20, "the memory is the pool's");
  expect(umfMemoryProviderFree(provider, ptr, 1 << 20) == UMF_RESULT_SUCCESS, "it takes back");
  const char* name = nullptr;
  expect(umfMemoryProviderGetName(provider, &name) == UMF_RESULT_SUCCESS && std::string(name) == "gpupool",
         "its name");

  (void)gpupool_set_limit(pool, 16 << 20);
  expect(umfMemoryProviderAlloc(provider, 64 << 20, 0, &ptr) == UMF_RESULT_ERROR_MEMORY_PROVIDER_SPECIFIC,
         "a shortage is an error");
  const char* words = nullptr;
  std::int32_t code = 0;
  umfMemoryProviderGetLastNativeError(provider, &words, &code);
  expect(code == GPUPOOL_ERROR_OVER_LIMIT && std::string(words).find("limit") != std::string::npos,
         "in words");
  (void)gpupool_set_limit(pool, 0);
}

void pool_on(const umf_memory_pool_ops_t* ops, void* params, umf_memory_provider_handle_t provider) {
  umf_memory_pool_handle_t pool = nullptr;
  expect(umfPoolCreate(ops, provider, params, 0, &pool) == UMF_RESULT_SUCCESS, "UMF makes a pool on it");
  std::vector<void*> blocks;
  for (int i = 0; i < 200; ++i) {
    blocks.push_back(umfPoolMalloc(pool, 1000 + 7919 * static_cast<std::size_t>(i)));
    expect(blocks.back() != nullptr, "UMF's pool has memory");
    if (i % 3 == 2) {
      expect(umfPoolFree(pool, blocks.front()) == UMF_RESULT_SUCCESS, "and takes it back");
      blocks.erase(blocks.begin());
    }
  }
  for (void* block : blocks) expect(umfPoolFree(pool, block) == UMF_RESULT_SUCCESS, "all of it");
  expect(umfPoolDestroy(pool) == UMF_RESULT_SUCCESS, "it ends");
}

}  // namespace

int main() {
  gpupool_t* pool = gpupool::plug::default_pool(0);
  umf_memory_provider_handle_t provider = nullptr;
  expect(umfMemoryProviderCreate(gpupool::umf_provider_ops(), pool, &provider) == UMF_RESULT_SUCCESS,
         "a provider");
  provide(provider, pool);
  pool_on(umfProxyPoolOps(), nullptr, provider);
  umf_disjoint_pool_params_handle_t params = nullptr;
  expect(umfDisjointPoolParamsCreate(&params) == UMF_RESULT_SUCCESS, "parameters");
  pool_on(umfDisjointPoolOps(), params, provider);
  umfDisjointPoolParamsDestroy(params);
  expect(umfMemoryProviderDestroy(provider) == UMF_RESULT_SUCCESS, "the provider ends");
  expect_all_freed(pool);
}
