// SPDX-License-Identifier: Apache-2.0
// The stand-in's streams, and what takes memory in their order: pools, captures and graphs.
#include <utility>

#include "quick_driver.hpp"

using namespace quick_driver;

namespace {

Stream& of(CUstream stream) {
  return *reinterpret_cast<Stream*>(stream);
}

int give_of_pool(Pool& pool, uint64_t bytes, uint64_t* address, CUstream stream) {
  if (const int wrong = judge({address}); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  if (stream != nullptr && of(stream).is_captured) {
    of(stream).captured += bytes;
    *address = place(bytes);
    return CUDA_SUCCESS;
  }
  if (bytes == 0) return kInvalidValue;
  if (pool.live + bytes > pool.reserved) {
    const uint64_t more = (pool.live + bytes - pool.reserved + kGranule - 1) / kGranule * kGranule;
    if (!charge(pool.device, more)) return CUDA_ERROR_OUT_OF_MEMORY;
    pool.reserved += more;
  }
  pool.live += bytes;
  *address = place(bytes);
  driver().given[*address] = {pool.device, bytes, current, &pool};
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

int cuStreamCreate(CUstream* stream, unsigned) {
  if (const int wrong = judge({stream}); wrong != 0) return wrong;
  *stream = reinterpret_cast<CUstream>(new Stream{current});
  return CUDA_SUCCESS;
}
int cuStreamGetCtx(CUstream stream, CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(of(stream).context);
  return CUDA_SUCCESS;
}
int cuStreamBeginCapture_v2(CUstream stream, unsigned) {
  of(stream).is_captured = true;
  return CUDA_SUCCESS;
}
int cuStreamEndCapture(CUstream stream, CUgraphExec* graph) {
  of(stream).is_captured = false;
  *graph = reinterpret_cast<CUgraphExec>(std::exchange(of(stream).captured, 0));
  return CUDA_SUCCESS;
}
int cuStreamIsCapturing(CUstream stream, unsigned* status) {
  *status = stream != nullptr && of(stream).is_captured ? 1 : 0;
  return CUDA_SUCCESS;
}
int cuStreamIsCapturing_ptsz(CUstream stream, unsigned* status) {
  return cuStreamIsCapturing(stream, status);
}
int cuThreadExchangeStreamCaptureMode(unsigned* mode) {
  *mode = 0;
  return CUDA_SUCCESS;
}

int cuMemAllocAsync(CUdeviceptr* to, size_t bytes, CUstream stream) {
  if (const int wrong = judge({to}); wrong != 0) return wrong;
  if (current == nullptr) return kInvalidContext;
  const int device = stream != nullptr ? of(stream).context->device : current->device;
  return give_of_pool(*driver().devices[device].chosen, bytes, reinterpret_cast<uint64_t*>(to), stream);
}
int cuMemAllocAsync_ptsz(CUdeviceptr* to, size_t bytes, CUstream stream) {
  return cuMemAllocAsync(to, bytes, stream);
}
int cuMemAllocFromPoolAsync(CUdeviceptr* to, size_t bytes, CUmemoryPool pool, CUstream stream) {
  if (const int wrong = judge({to, pool}); wrong != 0) return wrong;
  return give_of_pool(*reinterpret_cast<Pool*>(pool), bytes, reinterpret_cast<uint64_t*>(to), stream);
}
int cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* to, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return cuMemAllocFromPoolAsync(to, bytes, pool, stream);
}
int cuMemFreeAsync(CUdeviceptr of, CUstream) {
  return take_back(of);
}
int cuMemFreeAsync_ptsz(CUdeviceptr of, CUstream) {
  return take_back(of);
}
int cuMemPoolCreate(CUmemoryPool* pool, const CUmemProp* properties) {
  if (const int wrong = judge({pool, properties}); wrong != 0) return wrong;
  *pool = reinterpret_cast<CUmemoryPool>(new Pool{properties->location.id});
  return CUDA_SUCCESS;
}
int cuMemPoolTrimTo(CUmemoryPool handle, size_t bytes) {
  if (const int wrong = judge({handle}); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  auto& pool = *reinterpret_cast<Pool*>(handle);
  const uint64_t least = (std::max<uint64_t>(bytes, pool.live) + kGranule - 1) / kGranule * kGranule;
  hold(pool, std::min(pool.reserved, least));
  return CUDA_SUCCESS;
}
int cuMemPoolDestroy(CUmemoryPool handle) {
  if (const int wrong = judge({handle}); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  auto* const pool = reinterpret_cast<Pool*>(handle);
  pool->is_destroyed = true;
  end_if_unused(*pool);
  return CUDA_SUCCESS;
}
int cuMemPoolGetAttribute(CUmemoryPool pool, unsigned attribute, void* value) {
  const Guard guard(driver().lock);
  if (attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) return kInvalidValue;
  *static_cast<uint64_t*>(value) = reinterpret_cast<Pool*>(pool)->reserved;
  return CUDA_SUCCESS;
}
int cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  if (const int wrong = judge({pool}, device); wrong != 0) return wrong;
  *pool = reinterpret_cast<CUmemoryPool>(&driver().devices[device].pool);
  return CUDA_SUCCESS;
}
int cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  if (const int wrong = judge({pool}, device); wrong != 0) return wrong;
  *pool = reinterpret_cast<CUmemoryPool>(driver().devices[device].chosen);
  return CUDA_SUCCESS;
}
int cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  if (const int wrong = judge({pool}, device); wrong != 0) return wrong;
  driver().devices[device].chosen = reinterpret_cast<Pool*>(pool);
  return CUDA_SUCCESS;
}

/// A graph is the number of bytes that its nodes need.
int cuGraphLaunch(CUgraphExec graph, CUstream) {
  if (const int wrong = judge({graph}); wrong != 0) return wrong;
  if (current == nullptr) return kInvalidContext;
  const Guard guard(driver().lock);
  Device& device = driver().devices[current->device];
  const auto bytes = reinterpret_cast<uintptr_t>(graph);
  if (!charge(current->device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  device.graphs += bytes;
  return CUDA_SUCCESS;
}
int cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream) {
  return cuGraphLaunch(graph, stream);
}
int cuDeviceGraphMemTrim(CUdevice device) {
  if (const int wrong = judge({}, device); wrong != 0) return wrong;
  const Guard guard(driver().lock);
  driver().devices[device].used -= driver().devices[device].graphs;
  driver().devices[device].graphs = 0;
  return CUDA_SUCCESS;
}
int cuDeviceGetGraphMemAttribute(CUdevice device, unsigned attribute, void* value) {
  if (const int wrong = judge({value}, device); wrong != 0) return wrong;
  if (attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) return kInvalidValue;
  *static_cast<uint64_t*>(value) = driver().devices[device].graphs;
  return CUDA_SUCCESS;
}

}  // extern "C"
