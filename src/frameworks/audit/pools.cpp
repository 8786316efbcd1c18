// SPDX-License-Identifier: Apache-2.0
#include "frameworks/audit/pools.hpp"

#include <algorithm>

#include "frameworks/audit/functions.hpp"
#include "frameworks/audit/ledger.hpp"

namespace gpupool::audit {
namespace {

using Pools = std::array<CUmemoryPool, Pooled::kMostPools>;

int count_devices() {
  int count = 0;
  if (real.cuDeviceGetCount(&count) != CUDA_SUCCESS) return 0;
  return std::min(count, Ledger::kMostDevices);
}

}  // namespace

void find_default_pools() noexcept {
  if (real.cuDeviceGetDefaultMemPool == nullptr) return;  // CUDA 11.1 or older
  const int count = count_devices();
  for (int device = 0; device < count; ++device) {
    CUmemoryPool pool = nullptr;
    if (real.cuDeviceGetDefaultMemPool(&pool, device) == CUDA_SUCCESS)
      Ledger::get().device(device).pooled.add(pool);
  }
}

int device_of(CUmemoryPool pool) noexcept {
  const int count = count_devices();
  for (int device = 0; device < count; ++device)
    if (Ledger::get().device(device).pooled.knows(pool)) return device;
  return -1;
}

void settle_pools(int number) noexcept {
  Ledger::Device& device = Ledger::get().device(number);
  const uint64_t changes = device.pooled.changes();
  uint64_t held = 0;
  Pools pools;
  const size_t count = device.pooled.copy(pools);
  for (size_t at = 0; at < count; ++at) {
    uint64_t bytes = 0;
    if (real.cuMemPoolGetAttribute(pools[at], CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes) != CUDA_SUCCESS)
      return;  // as it was charged
    held += bytes;
  }
  uint64_t of_graphs = 0;
  if (real.cuDeviceGetGraphMemAttribute != nullptr &&
      real.cuDeviceGetGraphMemAttribute(number, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &of_graphs) ==
          CUDA_SUCCESS)
    held += of_graphs;
  device.pooled.settle(device.account, held, changes);
}

void settle_graphs() noexcept {
  CUdevice device = 0;
  if (real.cuCtxGetDevice(&device) == CUDA_SUCCESS && Ledger::has(device)) settle_pools(device);
}

bool empty_pools(int number) noexcept {
  Ledger::Device& device = Ledger::get().device(number);
  settle_pools(number);
  if (!device.pooled.has_slack()) return false;
  // Such a call would end a capture of the program's.
  unsigned mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  (void)real.cuThreadExchangeStreamCaptureMode(&mode);
  Pools pools;
  const size_t count = device.pooled.copy(pools);
  for (size_t at = 0; at < count; ++at) (void)real.cuMemPoolTrimTo(pools[at], 0);
  if (real.cuDeviceGraphMemTrim != nullptr) (void)real.cuDeviceGraphMemTrim(number);
  (void)real.cuThreadExchangeStreamCaptureMode(&mode);
  settle_pools(number);
  return true;
}

}  // namespace gpupool::audit
