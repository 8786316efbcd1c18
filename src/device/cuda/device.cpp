// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/device.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "base/interrupts.hpp"
#include "os/host_memory.hpp"

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
      peers_(driver, setup_.info.ordinal, setup_.peers),
      contexts_(driver),
      events_(driver, contexts_),
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
  if (result != CUDA_SUCCESS) return cuda_failed(result, "cuMemGetInfo");
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
  if (result != CUDA_SUCCESS) return cuda_failed(result, "cuMemAddressReserve(size %" PRIu64 ")", size);
  base = pointer;
  return kSuccess;
}

Status CudaDevice::release_addresses(Address base, uint64_t size) {
  const CudaScope scope = enter_to_release();
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuMemAddressFree(base, size);
  if (result == CUDA_SUCCESS) return kSuccess;
  return cuda_failed(result, "cuMemAddressFree(address 0x%" PRIx64 ", size %" PRIu64 ")", base, size);
}

Status CudaDevice::create_chunk(uint64_t size, ChunkHandle& chunk) {
  if (const Status status = check_host(Kind::device, size); status != kSuccess) return status;
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  cuda::CUmemGenericAllocationHandle handle = 0;
  const auto properties =
      cuda_chunk_properties(setup_.info.ordinal, setup_.shareable_chunks, setup_.rdma_chunks);
  const CUresult result = driver_.cuMemCreate(&handle, size, &properties, 0);
  if (result != CUDA_SUCCESS) return cuda_failed(result, "cuMemCreate(size %" PRIu64 ")", size);
  chunk = handle;
  return kSuccess;
}

Status CudaDevice::release_chunk(ChunkHandle chunk) {
  const CudaScope scope = enter_to_release();
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
  const CudaScope scope = enter_to_release();
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuMemUnmap(address, size);
  if (result == CUDA_SUCCESS) return kSuccess;
  return cuda_failed(result, "cuMemUnmap(address 0x%" PRIx64 ", size %" PRIu64 ")", address, size);
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
  if (const Status status = check_host(kind, size); status != kSuccess) return status;
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

Status CudaDevice::context_of(Stream stream, uint64_t& context) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  cuda::CUcontext found = nullptr;
  const CUresult result = driver_.cuStreamGetCtx(to_stream(stream), &found);
  if (result != CUDA_SUCCESS) return cuda_failed(result, "cuStreamGetCtx(stream 0x%" PRIxPTR ")", stream);
  context = 0;
  return found == setup_.context ? kSuccess : contexts_.learn(found, context);
}

Status CudaDevice::record(Stream stream, uint64_t context, Event& event) {
  const cuda::CUcontext chosen = context == 0 ? setup_.context : contexts_.find(context);
  if (chosen == nullptr)
    return fail(GPUPOOL_ERROR_DRIVER, "the context of stream 0x%" PRIxPTR " has ended", stream);
  const CudaScope scope(driver_, chosen, CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  CUevent taken = nullptr;
  if (const Status status = events_.take(context, taken); status != kSuccess) return status;
  const CUresult result = driver_.cuEventRecord(taken, to_stream(stream));
  if (result != CUDA_SUCCESS) {
    recycle(to_number(taken));
    return cuda_failed(result, "cuEventRecord(stream 0x%" PRIxPTR ")", stream);
  }
  event = to_number(taken);
  return kSuccess;
}

// An event whose context has ended has passed. The driver is not asked about it; should the context end right
// before the driver's call, its error counts no more.

Status CudaDevice::query(Event event, bool& passed) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  CUresult result = CUDA_SUCCESS;
  if (!events_.has_ended(to_event(event))) result = driver_.cuEventQuery(to_event(event));
  const bool answers = result == CUDA_SUCCESS || result == cuda::CUDA_ERROR_NOT_READY;
  if (!answers && !events_.has_ended(to_event(event))) return cuda_failed(result, "cuEventQuery");
  passed = result != cuda::CUDA_ERROR_NOT_READY;
  return kSuccess;
}

Status CudaDevice::wait(Stream stream, Event event) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  if (events_.has_ended(to_event(event))) return kSuccess;
  const CUresult result = driver_.cuStreamWaitEvent(to_stream(stream), to_event(event), 0);
  if (result == CUDA_SUCCESS || events_.has_ended(to_event(event))) return kSuccess;
  return cuda_failed(result, "cuStreamWaitEvent(stream 0x%" PRIxPTR ")", stream);
}

Status CudaDevice::synchronize(Event event) {
  if (interrupts::are_possible()) {
    return interrupts::look_until_passed(GPUPOOL_WAIT_GPU,
                                         [&](bool& passed) { return query(event, passed); });
  }
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  if (events_.has_ended(to_event(event))) return kSuccess;
  const CUresult result = driver_.cuEventSynchronize(to_event(event));
  if (result == CUDA_SUCCESS || events_.has_ended(to_event(event))) return kSuccess;
  return cuda_failed(result, "cuEventSynchronize");
}

void CudaDevice::recycle(Event event) noexcept {
  // In a forked child the lock may belong to a thread that does not exist there.
  if (cuda_state.load(std::memory_order_acquire) != CudaState::ready) return;
  events_.keep(to_event(event));
}

namespace {

/// Unlike cuCtxSynchronize, cuMemHostUnregister waits for all work of the context and leaves captures alone
/// (docs/lab/2026-11-captures.md). It needs no memory of the device.
Status wait_for_context(const CudaDriver& driver, cuda::CUcontext context) {
  constexpr size_t kPage = 65536;  // the largest that a host has
  const CudaScope scope(driver, context, CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const std::unique_ptr<void, decltype(&std::free)> page(std::aligned_alloc(kPage, kPage), &std::free);
  if (page == nullptr) return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "the host has no page to wait with");
  CUresult result = driver.cuMemHostRegister_v2(page.get(), kPage, 0);
  if (result != CUDA_SUCCESS) return cuda_failed(result, "cuMemHostRegister, to wait");
  result = driver.cuMemHostUnregister(page.get());
  return result == CUDA_SUCCESS ? kSuccess : cuda_failed(result, "cuMemHostUnregister, to wait");
}

/// A wait that another thread has taken over, so that this one can leave it.
struct DelegatedWait {
  std::atomic<bool> is_over = false;
  Status status = kSuccess;
  ErrorRecord error;
};

}  // namespace

Status CudaDevice::synchronize_all(uint64_t context) {
  const cuda::CUcontext chosen = context == 0 ? setup_.context : contexts_.find(context);
  if (chosen == nullptr) return kSuccess;  // its work has ended with it
  const Status status = wait_for(chosen);
  return status == kSuccess || context == 0 || contexts_.find(context) != nullptr ? status : kSuccess;
}

Status CudaDevice::wait_for(cuda::CUcontext chosen) {
  if (!interrupts::are_possible()) return wait_for_context(driver_, chosen);
  const auto wait = std::make_shared<DelegatedWait>();
  try {
    std::thread([wait, chosen, driver = &driver_] {
      wait->status = wait_for_context(*driver, chosen);
      wait->error = last_error();
      wait->is_over.store(true, std::memory_order_release);
    }).detach();
  } catch (const std::system_error&) {
    return wait_for_context(driver_, chosen);
  }
  const Status looked = interrupts::look_until_passed(GPUPOOL_WAIT_GPU, [&](bool& passed) {
    passed = wait->is_over.load(std::memory_order_acquire);
    return kSuccess;
  });
  if (looked != kSuccess) return looked;
  if (wait->status != kSuccess) last_error() = wait->error;
  return wait->status;
}

Status CudaDevice::is_capturing(Stream stream, bool& capturing) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  auto capture = cuda::CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver_.cuStreamIsCapturing(to_stream(stream), &capture);
  if (result != CUDA_SUCCESS && result != cuda::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
    return cuda_failed(result, "cuStreamIsCapturing(stream 0x%" PRIxPTR ")", stream);
  capturing = result != CUDA_SUCCESS || capture != cuda::CU_STREAM_CAPTURE_STATUS_NONE;
  return kSuccess;
}

/// Most streams do not capture; the cheaper question says so.
Status CudaDevice::capture_id(Stream stream, uint64_t& id) {
  bool capturing = false;
  if (const Status status = is_capturing(stream, capturing); status != kSuccess) return status;
  if (!capturing) {
    id = 0;
    return kSuccess;
  }
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
  if (interrupts::are_possible()) {
    uint64_t context = 0;
    Event event = 0;
    if (const Status status = context_of(stream, context); status != kSuccess) return status;
    if (const Status status = record(stream, context, event); status != kSuccess) return status;
    const Status status = synchronize(event);
    recycle(event);
    return status;
  }
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
