// SPDX-License-Identifier: Apache-2.0
// The hooks of what takes memory in the order of streams: pools, and graphs. What a pool grows by, and what a
// graph needs, the driver tells only afterwards.
#include "frameworks/audit/coverage.hpp"
#include "frameworks/audit/hooks.hpp"

namespace gpupool::audit {
namespace {

/// Once the pools, and then the group, have given up what is not in use, if need be.
bool is_within_cap(int number) {
  const Account& account = Ledger::get().device(number).account;
  if (!account.is_beyond_cap() || (empty_pools(number) && !account.is_beyond_cap())) return true;
  if (shares)
    for (GroupWait wait(number, account.share().excess()); wait.go_on();)
      if (!account.is_beyond_cap()) return true;
  return false;
}

/// `call` takes memory of the pool, and `undo` gives it back. A growth beyond the cap is undone.
template <typename Call, typename Undo>
int allocate_pooled(Pool* pool, uint64_t bytes, CUdeviceptr* address, Call call, Undo undo) {
  const CUmemoryPool handle = pool != nullptr ? pool->handle.load() : nullptr;
  if (address == nullptr || handle == nullptr || !see_device(pool->device)) return call();
  const int device = pool->device;
  Account& account = Ledger::get().device(device).account;
  if (!take_or_refuse(device, bytes, [&] { return pool->pooled.take(account, bytes); }))
    return CUDA_ERROR_OUT_OF_MEMORY;
  const CUdeviceptr before = *address;
  const int result = call();
  if (result != CUDA_SUCCESS) pool->pooled.give(account, bytes);
  pool->pooled.land(account);
  settle(*pool, handle);
  if (result != CUDA_SUCCESS) return result;
  Ledger& ledger = Ledger::get();
  const Block block{bytes, nullptr, device, Kind::pool, ledger.pools().number_of(*pool)};
  if (is_within_cap(device) && ledger.put(*address, block)) return result;
  (void)undo(*address);
  *address = before;
  pool->pooled.give(account, bytes);
  account.count_refusal();
  (void)is_within_cap(device);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/// Null: another process's, of which nothing is counted.
Pool* find(CUmemoryPool handle) {
  PoolList& pools = Ledger::get().pools();
  if (Pool* const known = pools.find(handle); known != nullptr) return known;
  CUdevice device = 0;
  if (real.cuCtxGetDevice(&device) != CUDA_SUCCESS || !Ledger::has(device)) return nullptr;
  (void)see_device(device);  // so that the default ones are known
  return pools.find(handle);
}

template <typename Call, typename Undo>
int allocate_on(CUstream stream, Default kind, uint64_t bytes, CUdeviceptr* address, Call call, Undo undo) {
  if (is_captured(stream, kind)) return call();
  return allocate_pooled(pool_of(stream), bytes, address, call, undo);
}

/// A graph has what it needs, even beyond the cap, since the driver tells only afterwards; but then no other
/// has. Its nodes may be of any device.
template <typename Call>
int launch(Call call) {
  CUdevice current = 0;
  if (real.cuCtxGetDevice(&current) != CUDA_SUCCESS || !Ledger::has(current)) return call();
  (void)see_device(current);
  bool is_within = true;
  Ledger::get().for_each_seen([&](int device) { is_within = is_within && is_within_cap(device); });
  if (!is_within) {
    Ledger::get().device(current).account.count_refusal();
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const int result = call();
  Ledger::get().for_each_seen(settle_graphs);
  return result;
}

}  // namespace

int hook::cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) noexcept {
  return allocate_on(
      stream, Default::legacy, bytes, address, [&] { return real.cuMemAllocAsync(address, bytes, stream); },
      [&](CUdeviceptr given) { return real.cuMemFreeAsync(given, stream); });
}

int hook::cuMemAllocAsync_ptsz(CUdeviceptr* address, size_t bytes, CUstream stream) noexcept {
  return allocate_on(
      stream, Default::per_thread, bytes, address,
      [&] { return real.cuMemAllocAsync_ptsz(address, bytes, stream); },
      [&](CUdeviceptr given) { return real.cuMemFreeAsync_ptsz(given, stream); });
}

int hook::cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                  CUstream stream) noexcept {
  const auto call = [&] { return real.cuMemAllocFromPoolAsync(address, bytes, pool, stream); };
  if (is_captured(stream, Default::legacy)) return call();
  return allocate_pooled(find(pool), bytes, address, call,
                         [&](CUdeviceptr given) { return real.cuMemFreeAsync(given, stream); });
}

int hook::cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                       CUstream stream) noexcept {
  const auto call = [&] { return real.cuMemAllocFromPoolAsync_ptsz(address, bytes, pool, stream); };
  if (is_captured(stream, Default::per_thread)) return call();
  return allocate_pooled(find(pool), bytes, address, call,
                         [&](CUdeviceptr given) { return real.cuMemFreeAsync_ptsz(given, stream); });
}

int hook::cuMemFreeAsync(CUdeviceptr address, CUstream stream) noexcept {
  return deallocate(address, [&] { return real.cuMemFreeAsync(address, stream); });
}

int hook::cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) noexcept {
  return deallocate(address, [&] { return real.cuMemFreeAsync_ptsz(address, stream); });
}

/// One that cannot be followed is refused under a cap.
int hook::cuMemPoolCreate(CUmemoryPool* pool, const CUmemProp* properties) noexcept {
  const int result = real.cuMemPoolCreate(pool, properties);
  if (result != CUDA_SUCCESS || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !Ledger::has(properties->location.id))
    return result;
  keep_driver();  // it will be asked
  if (Ledger::get().pools().add(*pool, properties->location.id) != nullptr || !is_limited()) return result;
  (void)real.cuMemPoolDestroy(*pool);
  Ledger::get().device(properties->location.id).account.count_refusal();
  return CUDA_ERROR_OUT_OF_MEMORY;
}

int hook::cuMemPoolDestroy(CUmemoryPool handle) noexcept {
  PoolList& pools = Ledger::get().pools();
  Pool* const pool = pools.find(handle);
  if (pool != nullptr) pools.forget(*pool);
  const int result = real.cuMemPoolDestroy(handle);
  if (pool == nullptr) return result;
  if (result == CUDA_SUCCESS) {
    pool->pooled.end(Ledger::get().device(pool->device).account);
  } else {
    pools.restore(*pool, handle);
  }
  return result;
}

int hook::cuMemPoolTrimTo(CUmemoryPool handle, size_t bytes) noexcept {
  const int result = real.cuMemPoolTrimTo(handle, bytes);
  if (Pool* const pool = Ledger::get().pools().find(handle); pool != nullptr) settle(*pool, handle);
  return result;
}

int hook::cuGraphLaunch(CUgraphExec graph, CUstream stream) noexcept {
  return launch([&] { return real.cuGraphLaunch(graph, stream); });
}

int hook::cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream) noexcept {
  return launch([&] { return real.cuGraphLaunch_ptsz(graph, stream); });
}

int hook::cuDeviceGraphMemTrim(CUdevice device) noexcept {
  const int result = real.cuDeviceGraphMemTrim(device);
  if (Ledger::has(device)) settle_graphs(device);
  return result;
}

}  // namespace gpupool::audit
