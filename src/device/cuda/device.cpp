// SPDX-License-Identifier: Apache-2.0
// What a CUDA device is, and its memory. Streams, events and data are in order.cpp.
#include "device/cuda/device.hpp"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <utility>

#include "os/host_memory.hpp"

namespace gpupool::internal {
namespace {

using cuda::CUDA_SUCCESS;
using cuda::CUresult;

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
      peers_(driver, setup_.info.ordinal, setup_.peers),
      contexts_(driver),
      events_(driver, contexts_),
      host_pages_(driver),
      inspection_(driver) {}

CudaDevice::~CudaDevice() {
  if (is_lost()) return;  // and so are the events
  const CudaScope scope = enter(CaptureSafety::unsafe);
  // Once the driver has gone, the events have gone too.
  if (scope.status() != kSuccess) return;
  events_.destroy_all();
  inspection_.unload();
}

Status CudaDevice::free_memory(uint64_t& free) {
  // The driver does not count what the kernel could take back from the cache of files, nor knows containers.
  if (is_integrated() && host_memory(free) == kSuccess) {
    free = std::min(free, setup_.info.total);
    return kSuccess;
  }
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  const CUresult result = driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes);
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuMemGetInfo");
  free = free_bytes;
  return kSuccess;
}

uint64_t CudaDevice::now_ns() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

bool CudaDevice::is_lost() noexcept {
  if (cuda_state.load(std::memory_order_acquire) != CudaState::ready) return false;
  if (!lost_.load(std::memory_order_relaxed) && !is_context_there()) lost_.store(true);
  return lost_.load(std::memory_order_relaxed);
}

/// A primary context that was reset, and retained again since, has its old handle and a new number.
bool CudaDevice::is_context_there() const noexcept {
  unsigned flags = 0;
  int active = 0;
  if (setup_.is_primary &&
      driver_.cuDevicePrimaryCtxGetState(setup_.info.ordinal, &flags, &active) == CUDA_SUCCESS && active == 0)
    return false;
  if (const CUresult result = driver_.cuCtxPushCurrent_v2(setup_.context); result != CUDA_SUCCESS)
    return !is_context_gone(result);
  unsigned long long id = setup_.context_id;
  if (driver_.cuCtxGetId != nullptr) (void)driver_.cuCtxGetId(setup_.context, &id);
  cuda::CUcontext popped = nullptr;
  (void)driver_.cuCtxPopCurrent_v2(&popped);
  return id == setup_.context_id;
}

// ---- virtual memory

Status CudaDevice::reserve_addresses(uint64_t size, Address& base) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  cuda::CUdeviceptr pointer = 0;
  const CUresult result = driver_.cuMemAddressReserve(&pointer, size, 0, 0, 0);
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuMemAddressReserve(size %" PRIu64 ")", size);
  base = pointer;
  return kSuccess;
}

Status CudaDevice::release_addresses(Address base, uint64_t size) {
  const CudaScope scope = enter_to_release();
  if (scope.status() != kSuccess) return scope.status();
  return cuda_status(driver_.cuMemAddressFree(base, size),
                     "cuMemAddressFree(address 0x%" PRIx64 ", size %" PRIu64 ")", base, size);
}

Status CudaDevice::create_chunk(uint64_t size, ChunkHandle& chunk) {
  if (const Status status = check_host(Kind::device, size); status != kSuccess) return status;
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  cuda::CUmemGenericAllocationHandle handle = 0;
  const auto properties =
      cuda_chunk_properties(setup_.info.ordinal, setup_.shareable_chunks, setup_.rdma_chunks);
  const CUresult result = driver_.cuMemCreate(&handle, size, &properties, 0);
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuMemCreate(size %" PRIu64 ")", size);
  chunk = handle;
  return kSuccess;
}

Status CudaDevice::release_chunk(ChunkHandle chunk) {
  const CudaScope scope = enter_to_release();
  if (scope.status() != kSuccess) return scope.status();
  return cuda_status(driver_.cuMemRelease(chunk), "cuMemRelease(chunk 0x%" PRIx64 ")", chunk);
}

Status CudaDevice::map(Address address, uint64_t size, ChunkHandle chunk) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  return cuda_status(driver_.cuMemMap(address, size, 0, chunk, 0),
                     "cuMemMap(address 0x%" PRIx64 ", size %" PRIu64 ", chunk 0x%" PRIx64 ")", address, size,
                     chunk);
}

Status CudaDevice::set_access(Address address, uint64_t size) {
  return protect(address, size, Permission::write);
}

Status CudaDevice::protect(Address address, uint64_t size, Permission access) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  return scope.status() == kSuccess ? peers_.set_access(address, size, access) : scope.status();
}

Status CudaDevice::unmap(Address address, uint64_t size) {
  const CudaScope scope = enter_to_release();
  if (scope.status() != kSuccess) return scope.status();
  return cuda_status(driver_.cuMemUnmap(address, size), "cuMemUnmap(address 0x%" PRIx64 ", size %" PRIu64 ")",
                     address, size);
}

// ---- memory between processes

Status CudaDevice::export_chunk(ChunkHandle chunk, SharedChunk& shared) {
  if (!setup_.shareable_chunks) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "CUDA device %d does not share memory between processes here",
                setup_.info.ordinal);
  }
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  int descriptor = -1;
  const CUresult result = driver_.cuMemExportToShareableHandle(
      &descriptor, chunk, cuda::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS)
    return cuda_status(result, "cuMemExportToShareableHandle(chunk 0x%" PRIx64 ")", chunk);
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
    return cuda_status(result, "cuMemImportFromShareableHandle(descriptor %d)", shared.descriptor);
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
  if (const Status status = check_host(kind, size); status != kSuccess) return status;
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  if (kind == Kind::device) return allocate_device(size, address);
  if (kind == Kind::pinned) {
    if (setup_.maps_host_pages && host_pages_.allocate(size, address)) return kSuccess;
    // Without write-combining, the host address is valid on every device.
    void* pointer = nullptr;
    const CUresult result =
        driver_.cuMemHostAlloc(&pointer, size, cuda::kMemHostAllocPortable | cuda::kMemHostAllocDeviceMap);
    if (result != CUDA_SUCCESS) return cuda_status(result, "cuMemHostAlloc(size %" PRIu64 ")", size);
    address = reinterpret_cast<uintptr_t>(pointer);
    return kSuccess;
  }
  cuda::CUdeviceptr pointer = 0;
  const CUresult result = driver_.cuMemAllocManaged(&pointer, size, cuda::CU_MEM_ATTACH_GLOBAL);
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuMemAllocManaged(size %" PRIu64 ")", size);
  address = pointer;
  return kSuccess;
}

Status CudaDevice::allocate_device(uint64_t size, Address& address) {
  if (const Status status = peers_.enable(setup_.context); status != kSuccess) return status;
  cuda::CUdeviceptr pointer = 0;
  const CUresult result = driver_.cuMemAlloc_v2(&pointer, size);
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuMemAlloc(size %" PRIu64 ")", size);
  address = pointer;
  return kSuccess;
}

Status CudaDevice::deallocate(Kind kind, Address address, uint64_t size, Stream) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  CUresult result = CUDA_SUCCESS;
  if (kind == Kind::pinned) {
    if (host_pages_.deallocate(address, size, result))
      return cuda_status(result, "cuMemHostUnregister(address 0x%" PRIx64 ", size %" PRIu64 ")", address,
                         size);
    result = driver_.cuMemFreeHost(reinterpret_cast<void*>(address));
    return cuda_status(result, "cuMemFreeHost(address 0x%" PRIx64 ", size %" PRIu64 ")", address, size);
  }
  result = driver_.cuMemFree_v2(address);
  return cuda_status(result, "cuMemFree(address 0x%" PRIx64 ", size %" PRIu64 ")", address, size);
}

// ---- the host's memory

/// The system's figure, because the driver has none.
Status CudaDevice::host_memory(uint64_t& available) {
  os::HostMemory host;
  if (!os::read_host_memory(host))
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "the system does not say how much memory is available");
  available = host.available;
  return kSuccess;
}

/// The driver locks as much of the host's memory as it is told to, and then the kernel ends a process. So a
/// sixteenth of what is available stays, for whatever else the process does.
Status CudaDevice::check_host(Kind kind, uint64_t size) {
  uint64_t available = 0;
  const bool is_of_host = kind == Kind::pinned || is_integrated();
  if (!is_of_host || host_memory(available) != kSuccess || size <= available - available / 16)
    return kSuccess;
  return fail(GPUPOOL_ERROR_OUT_OF_MEMORY,
              "%" PRIu64 " bytes are wanted of the host, which has %" PRIu64 " available for this process",
              size, available);
}

}  // namespace gpupool::internal
