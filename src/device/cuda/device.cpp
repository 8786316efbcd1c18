// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/device.hpp"

#include <chrono>
#include <cinttypes>
#include <utility>

#include "os/process.hpp"

namespace gpupool::internal {
namespace {

using cuda::CUDA_SUCCESS;
using cuda::CUevent;
using cuda::CUresult;
using cuda::CUstream;

// The driver's handles are opaque pointers; ours are numbers.
CUstream to_stream(Stream stream) noexcept {
  return reinterpret_cast<CUstream>(stream);
}

CUevent to_event(Event event) noexcept {
  return reinterpret_cast<CUevent>(static_cast<uintptr_t>(event));
}

Event to_number(CUevent event) noexcept {
  return reinterpret_cast<uintptr_t>(event);
}

}  // namespace

cuda::CUmemAllocationProp cuda_chunk_properties(cuda::CUdevice device, bool shareable, bool rdma) noexcept {
  cuda::CUmemAllocationProp properties = {};
  properties.type = cuda::CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes =
      shareable ? cuda::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : cuda::CU_MEM_HANDLE_TYPE_NONE;
  properties.location = {cuda::CU_MEM_LOCATION_TYPE_DEVICE, device};
  properties.allocFlags.gpuDirectRDMACapable = rdma ? 1 : 0;
  return properties;
}

CudaDevice::CudaDevice(const CudaDriver& driver, CudaDeviceSetup setup)
    : driver_(driver),
      setup_(std::move(setup)),
      shareable_chunks_(setup_.shareable_chunks),
      peers_(driver, setup_.info.ordinal, setup_.peers),
      events_(driver),
      inspection_(driver) {}

CudaDevice::~CudaDevice() {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  // Once the driver has gone, the events have gone too.
  if (scope.status() != kSuccess) return;
  events_.destroy_all();
  inspection_.unload();
}

Status CudaDevice::free_memory(uint64_t& free) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  const CUresult result = driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes);
  if (result != CUDA_SUCCESS) return cuda_failed(result, "cuMemGetInfo");
  free = free_bytes;
  return kSuccess;
}

uint64_t CudaDevice::now_ns() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// ---- virtual memory

Status CudaDevice::reserve_addresses(uint64_t size, Address& base) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  cuda::CUdeviceptr pointer = 0;
  const CUresult result = driver_.cuMemAddressReserve(&pointer, size, 0, 0, 0);
  if (result != CUDA_SUCCESS) return cuda_failed(result, "cuMemAddressReserve(size %" PRIu64 ")", size);
  base = pointer;
  return kSuccess;
}

Status CudaDevice::release_addresses(Address base, uint64_t size) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuMemAddressFree(base, size);
  if (result == CUDA_SUCCESS) return kSuccess;
  return cuda_failed(result, "cuMemAddressFree(address 0x%" PRIx64 ", size %" PRIu64 ")", base, size);
}

Status CudaDevice::create_chunk(uint64_t size, ChunkHandle& chunk) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  cuda::CUmemGenericAllocationHandle handle = 0;
  const auto create = [&](bool shareable) {
    const auto properties = cuda_chunk_properties(setup_.info.ordinal, shareable, setup_.rdma_chunks);
    return driver_.cuMemCreate(&handle, size, &properties, 0);
  };
  const bool shareable = shareable_chunks_.load(std::memory_order_relaxed);
  CUresult result = create(shareable);
  if (shareable && (result == cuda::CUDA_ERROR_NOT_PERMITTED || result == cuda::CUDA_ERROR_NOT_SUPPORTED)) {
    // Some containers and virtual GPUs forbid what the device claims to support.
    result = create(false);
    if (result == CUDA_SUCCESS) shareable_chunks_.store(false, std::memory_order_relaxed);
  }
  if (result != CUDA_SUCCESS) return cuda_failed(result, "cuMemCreate(size %" PRIu64 ")", size);
  chunk = handle;
  return kSuccess;
}

Status CudaDevice::release_chunk(ChunkHandle chunk) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuMemRelease(chunk);
  return result == CUDA_SUCCESS ? kSuccess : cuda_failed(result, "cuMemRelease(chunk 0x%" PRIx64 ")", chunk);
}

Status CudaDevice::map(Address address, uint64_t size, ChunkHandle chunk) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuMemMap(address, size, 0, chunk, 0);
  if (result == CUDA_SUCCESS) return kSuccess;
  return cuda_failed(result, "cuMemMap(address 0x%" PRIx64 ", size %" PRIu64 ", chunk 0x%" PRIx64 ")",
                     address, size, chunk);
}

Status CudaDevice::set_access(Address address, uint64_t size) {
  return protect(address, size, Permission::write);
}

Status CudaDevice::protect(Address address, uint64_t size, Permission access) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  return scope.status() == kSuccess ? peers_.set_access(address, size, access) : scope.status();
}

Status CudaDevice::unmap(Address address, uint64_t size) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuMemUnmap(address, size);
  if (result == CUDA_SUCCESS) return kSuccess;
  return cuda_failed(result, "cuMemUnmap(address 0x%" PRIx64 ", size %" PRIu64 ")", address, size);
}

// ---- memory between processes

Status CudaDevice::export_chunk(ChunkHandle chunk, SharedChunk& shared) {
  if (!shareable_chunks_.load(std::memory_order_relaxed)) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "CUDA device %d does not share memory between processes here",
                setup_.info.ordinal);
  }
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  int descriptor = -1;
  const CUresult result = driver_.cuMemExportToShareableHandle(
      &descriptor, chunk, cuda::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS)
    return cuda_failed(result, "cuMemExportToShareableHandle(chunk 0x%" PRIx64 ")", chunk);
  shared = {descriptor, 0};
  return kSuccess;
}

/// The driver knows the chunk's size, and refuses to map any other.
Status CudaDevice::import_chunk(const SharedChunk& shared, uint64_t, ChunkHandle& chunk) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  cuda::CUmemGenericAllocationHandle handle = 0;
  const CUresult result = driver_.cuMemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<intptr_t>(shared.descriptor)),
      cuda::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result != CUDA_SUCCESS)
    return cuda_failed(result, "cuMemImportFromShareableHandle(descriptor %d)", shared.descriptor);
  chunk = handle;
  return kSuccess;
}

// ---- peers

Status CudaDevice::add_peer(int32_t peer, bool all) {
  if (const Status status = peers_.add(peer); status != kSuccess || !all) return status;
  const CudaScope scope = enter(CaptureSafety::unsafe);
  return scope.status() == kSuccess ? peers_.enable(setup_.context) : scope.status();
}

void CudaDevice::remove_peer(int32_t peer) noexcept {
  peers_.remove(peer);
}

// ---- the driver's own malloc

Status CudaDevice::allocate(Kind kind, uint64_t size, Stream, Address& address) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  if (kind == Kind::device) return allocate_device(size, address);
  if (kind == Kind::pinned) {
    // Without write-combining, the host address is valid on every device.
    void* pointer = nullptr;
    const CUresult result =
        driver_.cuMemHostAlloc(&pointer, size, cuda::kMemHostAllocPortable | cuda::kMemHostAllocDeviceMap);
    if (result != CUDA_SUCCESS) return cuda_failed(result, "cuMemHostAlloc(size %" PRIu64 ")", size);
    address = reinterpret_cast<uintptr_t>(pointer);
    return kSuccess;
  }
  cuda::CUdeviceptr pointer = 0;
  const CUresult result = driver_.cuMemAllocManaged(&pointer, size, cuda::CU_MEM_ATTACH_GLOBAL);
  if (result != CUDA_SUCCESS) return cuda_failed(result, "cuMemAllocManaged(size %" PRIu64 ")", size);
  address = pointer;
  return kSuccess;
}

Status CudaDevice::allocate_device(uint64_t size, Address& address) {
  if (const Status status = peers_.enable(setup_.context); status != kSuccess) return status;
  cuda::CUdeviceptr pointer = 0;
  const CUresult result = driver_.cuMemAlloc_v2(&pointer, size);
  if (result != CUDA_SUCCESS) return cuda_failed(result, "cuMemAlloc(size %" PRIu64 ")", size);
  address = pointer;
  return kSuccess;
}

Status CudaDevice::deallocate(Kind kind, Address address, uint64_t size, Stream) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const bool pinned = kind == Kind::pinned;
  const CUresult result =
      pinned ? driver_.cuMemFreeHost(reinterpret_cast<void*>(address)) : driver_.cuMemFree_v2(address);
  if (result == CUDA_SUCCESS) return kSuccess;
  return cuda_failed(result, "%s(address 0x%" PRIx64 ", size %" PRIu64 ")",
                     pinned ? "cuMemFreeHost" : "cuMemFree", address, size);
}

// ---- order

Status CudaDevice::record(Stream stream, Event& event) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  CUevent taken = nullptr;
  if (const Status status = events_.take(taken); status != kSuccess) return status;
  const CUresult result = driver_.cuEventRecord(taken, to_stream(stream));
  if (result != CUDA_SUCCESS) {
    recycle(to_number(taken));
    return cuda_failed(result, "cuEventRecord(stream 0x%" PRIxPTR ")", stream);
  }
  event = to_number(taken);
  return kSuccess;
}

Status CudaDevice::query(Event event, bool& passed) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuEventQuery(to_event(event));
  if (result != CUDA_SUCCESS && result != cuda::CUDA_ERROR_NOT_READY) {
    return cuda_failed(result, "cuEventQuery");
  }
  passed = result == CUDA_SUCCESS;
  return kSuccess;
}

Status CudaDevice::query_stream(Stream stream, bool& idle) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuStreamQuery(to_stream(stream));
  if (result != CUDA_SUCCESS && result != cuda::CUDA_ERROR_NOT_READY) {
    return cuda_failed(result, "cuStreamQuery(stream 0x%" PRIxPTR ")", stream);
  }
  idle = result == CUDA_SUCCESS;
  return kSuccess;
}

Status CudaDevice::wait(Stream stream, Event event) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuStreamWaitEvent(to_stream(stream), to_event(event), 0);
  if (result == CUDA_SUCCESS) return kSuccess;
  return cuda_failed(result, "cuStreamWaitEvent(stream 0x%" PRIxPTR ")", stream);
}

Status CudaDevice::synchronize(Event event) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuEventSynchronize(to_event(event));
  return result == CUDA_SUCCESS ? kSuccess : cuda_failed(result, "cuEventSynchronize");
}

void CudaDevice::recycle(Event event) noexcept {
  // In a forked child the lock may belong to a thread that does not exist there.
  if (cuda_state.load(std::memory_order_acquire) != CudaState::ready) return;
  events_.keep(to_event(event));
}

Status CudaDevice::synchronize_all() {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuCtxSynchronize();
  return result == CUDA_SUCCESS ? kSuccess : cuda_failed(result, "cuCtxSynchronize");
}

Status CudaDevice::capture_id(Stream stream, uint64_t& id) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  auto capture = cuda::CU_STREAM_CAPTURE_STATUS_NONE;
  uint64_t number = 0;
  const CUresult result =
      driver_.cuStreamGetCaptureInfo_v2 != nullptr
          ? driver_.cuStreamGetCaptureInfo_v2(to_stream(stream), &capture, &number, nullptr, nullptr, nullptr)
          : driver_.cuStreamGetCaptureInfo_v3(to_stream(stream), &capture, &number, nullptr, nullptr, nullptr,
                                              nullptr);
  if (result == cuda::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    id = kCaptureElsewhere;
    return kSuccess;
  }
  if (result != CUDA_SUCCESS) {
    return cuda_failed(result, "cuStreamGetCaptureInfo(stream 0x%" PRIxPTR ")", stream);
  }
  switch (capture) {
    case cuda::CU_STREAM_CAPTURE_STATUS_NONE: id = 0; break;
    case cuda::CU_STREAM_CAPTURE_STATUS_ACTIVE: id = number; break;
    case cuda::CU_STREAM_CAPTURE_STATUS_INVALIDATED: id = UINT64_MAX; break;
  }
  return kSuccess;
}

// ---- streams and data

Status CudaDevice::create_stream(Stream& stream) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  CUstream created = nullptr;
  const CUresult result = driver_.cuStreamCreate(&created, cuda::CU_STREAM_NON_BLOCKING);
  if (result != CUDA_SUCCESS) return cuda_failed(result, "cuStreamCreate");
  stream = reinterpret_cast<Stream>(created);
  return kSuccess;
}

Status CudaDevice::destroy_stream(Stream stream) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuStreamDestroy_v2(to_stream(stream));
  if (result == CUDA_SUCCESS) return kSuccess;
  return cuda_failed(result, "cuStreamDestroy(stream 0x%" PRIxPTR ")", stream);
}

Status CudaDevice::synchronize_stream(Stream stream) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuStreamSynchronize(to_stream(stream));
  if (result == CUDA_SUCCESS) return kSuccess;
  return cuda_failed(result, "cuStreamSynchronize(stream 0x%" PRIxPTR ")", stream);
}

// Copies and fills are the caller's own work on the stream: if it captures a graph, they go into the graph,
// and the caller's capture mode applies.

Status CudaDevice::copy(Address destination, Address source, uint64_t size, Stream stream) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuMemcpyAsync(destination, source, size, to_stream(stream));
  if (result == CUDA_SUCCESS) return kSuccess;
  return cuda_failed(
      result, "cuMemcpyAsync(to 0x%" PRIx64 ", from 0x%" PRIx64 ", size %" PRIu64 ", stream 0x%" PRIxPTR ")",
      destination, source, size, stream);
}

Status CudaDevice::fill(Address destination, uint8_t value, uint64_t size, Stream stream) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuMemsetD8Async(destination, value, size, to_stream(stream));
  if (result == CUDA_SUCCESS) return kSuccess;
  return cuda_failed(result,
                     "cuMemsetD8Async(address 0x%" PRIx64 ", size %" PRIu64 ", stream 0x%" PRIxPTR ")",
                     destination, size, stream);
}

Status CudaDevice::fill_words(Address destination, uint32_t word, uint64_t size, Stream stream) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  const uint64_t count = size / sizeof word;
  const CUresult result = driver_.cuMemsetD32Async(destination, word, count, to_stream(stream));
  if (result == CUDA_SUCCESS) return kSuccess;
  return cuda_failed(result,
                     "cuMemsetD32Async(address 0x%" PRIx64 ", count %" PRIu64 ", stream 0x%" PRIxPTR ")",
                     destination, count, stream);
}

// ---- sleep

/// The system's figure, because the driver has none.
Status CudaDevice::host_memory(uint64_t& available) {
  available = os::available_memory();
  if (available != 0) return kSuccess;
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "the system does not say how much memory is available");
}

Status CudaDevice::transfer(Address destination, Address source, uint64_t size, Stream stream) {
  return copy(destination, source, size, stream);
}

// ---- debug modes

Status CudaDevice::begin_inspecting() {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  return scope.status() == kSuccess ? inspection_.load() : scope.status();
}

Status CudaDevice::inspect(std::span<const Look> looks, Address report, Stream stream) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  return inspection_.launch(looks, report, to_stream(stream));
}

}  // namespace gpupool::internal
