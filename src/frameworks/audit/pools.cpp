// SPDX-License-Identifier: Apache-2.0
#include "frameworks/audit/pools.hpp"

#include <algorithm>

#include "frameworks/audit/functions.hpp"
#include "frameworks/audit/ledger.hpp"

namespace gpupool::audit {
namespace {

constexpr uintptr_t kLegacyStream = 1;
constexpr uintptr_t kPerThreadStream = 2;

/// The device of a stream, which need not be the current context's. Below 0: none.
int device_of(CUstream stream) {
  CUdevice device = -1;
  CUcontext of_stream = nullptr;
  CUcontext current = nullptr;
  if (real.cuCtxGetDevice(&device) != CUDA_SUCCESS) return -1;
  if (reinterpret_cast<uintptr_t>(stream) <= kPerThreadStream || real.cuStreamGetCtx == nullptr ||
      real.cuStreamGetCtx(stream, &of_stream) != CUDA_SUCCESS ||
      real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || of_stream == current ||
      real.cuCtxPushCurrent_v2(of_stream) != CUDA_SUCCESS)
    return device;
  (void)real.cuCtxGetDevice(&device);
  (void)real.cuCtxPopCurrent_v2(&of_stream);
  return device;
}

}  // namespace

void find_default_pools(int devices) noexcept {
  if (real.cuDeviceGetDefaultMemPool == nullptr) return;  // CUDA 11.1 or older
  for (int device = 0; device < devices; ++device) {
    CUmemoryPool pool = nullptr;
    if (real.cuDeviceGetDefaultMemPool(&pool, device) == CUDA_SUCCESS)
      (void)Ledger::get().pools().add(pool, device);
  }
}

bool is_captured(CUstream stream, Default kind) noexcept {
  const auto ask = kind == Default::legacy ? real.cuStreamIsCapturing : real.cuStreamIsCapturing_ptsz;
  const auto number = reinterpret_cast<uintptr_t>(stream);
  if (number == kLegacyStream || (number == 0 && kind == Default::legacy)) return false;  // it cannot be
  unsigned status = 0;
  return ask != nullptr && ask(stream, &status) == CUDA_SUCCESS && status != 0;
}

Pool* pool_of(CUstream stream) noexcept {
  const int device = device_of(stream);
  CUmemoryPool handle = nullptr;
  if (!Ledger::has(device) || real.cuDeviceGetMemPool == nullptr ||
      real.cuDeviceGetMemPool(&handle, device) != CUDA_SUCCESS)
    return nullptr;
  PoolList& pools = Ledger::get().pools();
  Pool* const known = pools.find(handle);
  return known != nullptr ? known : pools.add(handle, device);  // one of a library that is left alone
}

void settle(Pool& pool, CUmemoryPool handle) noexcept {
  const uint64_t changes = pool.pooled.changes();
  uint64_t held = 0;
  if (real.cuMemPoolGetAttribute(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held) == CUDA_SUCCESS)
    pool.pooled.settle(Ledger::get().device(pool.device).account, held, changes);
}

void settle_graphs(int number) noexcept {
  Ledger::Device& device = Ledger::get().device(number);
  const uint64_t changes = device.graphs.changes();
  uint64_t held = 0;
  if (real.cuDeviceGetGraphMemAttribute != nullptr &&
      real.cuDeviceGetGraphMemAttribute(number, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &held) ==
          CUDA_SUCCESS)
    device.graphs.settle(device.account, held, changes);
}

void settle_pools(int number) noexcept {
  Ledger::get().pools().for_each_of(number, [](Pool& pool, CUmemoryPool handle) { settle(pool, handle); });
  settle_graphs(number);
}

bool empty_pools(int number) noexcept {
  Ledger::Device& device = Ledger::get().device(number);
  // Such a call would end a capture of the program's.
  unsigned mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  (void)real.cuThreadExchangeStreamCaptureMode(&mode);
  bool has_slack = false;
  Ledger::get().pools().for_each_of(number, [&](Pool& pool, CUmemoryPool handle) {
    settle(pool, handle);
    if (!pool.pooled.has_slack()) return;
    has_slack = true;
    (void)real.cuMemPoolTrimTo(handle, 0);
    settle(pool, handle);
  });
  settle_graphs(number);
  if (device.graphs.has_slack() && real.cuDeviceGraphMemTrim != nullptr) {
    has_slack = true;
    (void)real.cuDeviceGraphMemTrim(number);
    settle_graphs(number);
  }
  (void)real.cuThreadExchangeStreamCaptureMode(&mode);
  return has_slack;
}

}  // namespace gpupool::audit
