// SPDX-License-Identifier: Apache-2.0
// A CUDA device's streams: their order, their captures, and the work that is queued on them.
#include <atomic>
#include <cinttypes>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <thread>

#include "base/interrupts.hpp"
#include "device/cuda/device.hpp"

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

}  // namespace

// ---- order

Status CudaDevice::context_of(Stream stream, uint64_t& context) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  cuda::CUcontext found = nullptr;
  const CUresult result = driver_.cuStreamGetCtx(to_stream(stream), &found);
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuStreamGetCtx(stream 0x%" PRIxPTR ")", stream);
  context = 0;
  return found == setup_.context ? kSuccess : contexts_.learn(found, context);
}

Status CudaDevice::record(Stream stream, uint64_t context, Event& event) {
  const cuda::CUcontext chosen = context == 0 ? setup_.context : contexts_.find(context);
  if (chosen == nullptr)
    return fail(GPUPOOL_ERROR_DRIVER, "the context of stream 0x%" PRIxPTR " has ended", stream);
  const CudaScope scope(driver_, chosen, CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  Event taken = 0;
  if (const Status status = events_.take(context, taken); status != kSuccess) return status;
  const CUevent handle = events_.find(taken);
  const CUresult result = handle != nullptr ? driver_.cuEventRecord(handle, to_stream(stream))
                                            : cuda::CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (result != CUDA_SUCCESS) {
    recycle(taken);
    return cuda_status(result, "cuEventRecord(stream 0x%" PRIxPTR ")", stream);
  }
  event = taken;
  return kSuccess;
}

// An event whose context has ended has passed. The driver is not asked about it; should the context end right
// before the driver's call, its error counts no more.

Status CudaDevice::query(Event event, bool& passed) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const CUevent handle = events_.find(event);
  const CUresult result = handle != nullptr ? driver_.cuEventQuery(handle) : CUDA_SUCCESS;
  const bool answers = result == CUDA_SUCCESS || result == cuda::CUDA_ERROR_NOT_READY;
  if (!answers && events_.find(event) != nullptr) return cuda_status(result, "cuEventQuery");
  passed = result != cuda::CUDA_ERROR_NOT_READY;
  return kSuccess;
}

Status CudaDevice::wait(Stream stream, Event event) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  const CUevent handle = events_.find(event);
  if (handle == nullptr) return kSuccess;
  const CUresult result = driver_.cuStreamWaitEvent(to_stream(stream), handle, 0);
  if (result != CUDA_SUCCESS && events_.find(event) == nullptr) return kSuccess;
  return cuda_status(result, "cuStreamWaitEvent(stream 0x%" PRIxPTR ")", stream);
}

Status CudaDevice::synchronize(Event event) {
  if (interrupts::are_possible()) {
    return interrupts::look_until_passed(GPUPOOL_WAIT_GPU,
                                         [&](bool& passed) { return query(event, passed); });
  }
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const CUevent handle = events_.find(event);
  if (handle == nullptr) return kSuccess;
  const CUresult result = driver_.cuEventSynchronize(handle);
  if (result != CUDA_SUCCESS && events_.find(event) == nullptr) return kSuccess;
  return cuda_status(result, "cuEventSynchronize");
}

void CudaDevice::recycle(Event event) noexcept {
  // In a forked child the lock may belong to a thread that does not exist there.
  if (cuda_state.load(std::memory_order_acquire) != CudaState::ready) return;
  events_.keep(event);
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
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuMemHostRegister, to wait");
  result = driver.cuMemHostUnregister(page.get());
  return cuda_status(result, "cuMemHostUnregister, to wait");
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
  const bool is_implicit = result == cuda::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  const bool is_gone = result == cuda::CUDA_ERROR_INVALID_HANDLE;
  if (result != CUDA_SUCCESS && !is_implicit && !is_gone)
    return cuda_status(result, "cuStreamIsCapturing(stream 0x%" PRIxPTR ")", stream);
  capturing = is_implicit || (!is_gone && capture != cuda::CU_STREAM_CAPTURE_STATUS_NONE);
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
    return cuda_status(result, "cuStreamGetCaptureInfo(stream 0x%" PRIxPTR ")", stream);
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
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuStreamCreate");
  stream = reinterpret_cast<Stream>(created);
  return kSuccess;
}

Status CudaDevice::destroy_stream(Stream stream) {
  const CudaScope scope = enter(CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  return cuda_status(driver_.cuStreamDestroy_v2(to_stream(stream)), "cuStreamDestroy(stream 0x%" PRIxPTR ")",
                     stream);
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
  return cuda_status(driver_.cuStreamSynchronize(to_stream(stream)),
                     "cuStreamSynchronize(stream 0x%" PRIxPTR ")", stream);
}

// Copies and fills are the caller's own work on the stream: if it captures a graph, they go into the graph,
// and the caller's capture mode applies.

Status CudaDevice::copy(Address destination, Address source, uint64_t size, Stream stream) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  return cuda_status(driver_.cuMemcpyAsync(destination, source, size, to_stream(stream)),
                     "cuMemcpyAsync(to 0x%" PRIx64 ", from 0x%" PRIx64 ", size %" PRIu64
                     ", stream 0x%" PRIxPTR ")",
                     destination, source, size, stream);
}

Status CudaDevice::fill(Address destination, uint8_t value, uint64_t size, Stream stream) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  const CUresult result = driver_.cuMemsetD8Async(destination, value, size, to_stream(stream));
  if (result == CUDA_SUCCESS) return kSuccess;
  return cuda_status(result,
                     "cuMemsetD8Async(address 0x%" PRIx64 ", size %" PRIu64 ", stream 0x%" PRIxPTR ")",
                     destination, size, stream);
}

Status CudaDevice::fill_words(Address destination, uint32_t word, uint64_t size, Stream stream) {
  const CudaScope scope = enter(CaptureSafety::safe);
  if (scope.status() != kSuccess) return scope.status();
  const uint64_t count = size / sizeof word;
  const CUresult result = driver_.cuMemsetD32Async(destination, word, count, to_stream(stream));
  if (result == CUDA_SUCCESS) return kSuccess;
  return cuda_status(result,
                     "cuMemsetD32Async(address 0x%" PRIx64 ", count %" PRIu64 ", stream 0x%" PRIxPTR ")",
                     destination, count, stream);
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
