// SPDX-License-Identifier: Apache-2.0
// The stand-in for PyTorch and for the CUDA runtime, on the stand-in driver that GPUPOOL_LIBCUDA names.
#include "types.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "controls.hpp"

namespace {

template <typename Result, typename... Arguments>
Result driver(const char* name, Arguments... arguments) {
  static void* const library = dlopen(std::getenv("GPUPOOL_LIBCUDA"), RTLD_NOW | RTLD_LOCAL);
  auto* function = reinterpret_cast<Result (*)(Arguments...)>(dlsym(library, name));
  if (function == nullptr) std::abort();
  return function(arguments...);
}

thread_local int current = 0;
thread_local cudaError_t last = cudaSuccess;
std::atomic<int> waits{0};
std::mutex sizes_mutex;
std::map<void*, size_t> sizes;
std::mutex questions_mutex;
std::set<std::pair<std::thread::id, cudaStream_t>> questions;
cudaStream_t current_stream = nullptr;

/// Calls the driver in the primary context of a device.
template <typename... Arguments>
cudaError_t call_on(int device, const char* name, Arguments... arguments) {
  static std::array<void*, 2> contexts{};
  static std::mutex mutex;
  {
    const std::lock_guard lock(mutex);
    void*& context = contexts.at(static_cast<size_t>(device));
    if (context == nullptr) {
      (void)driver<int>("cuInit", 0u);
      (void)driver<int>("cuDevicePrimaryCtxRetain", &context, device);
    }
    (void)driver<int>("cuCtxPushCurrent_v2", context);
  }
  const int result = driver<int>(name, arguments...);
  void* popped = nullptr;
  (void)driver<int>("cuCtxPopCurrent_v2", &popped);
  last = static_cast<cudaError_t>(result);
  return last;
}

template <typename... Arguments>
cudaError_t call(const char* name, Arguments... arguments) {
  return call_on(current, name, arguments...);
}

}  // namespace

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device > 1) return last = cudaErrorInvalidDevice;
  current = device;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return std::exchange(last, cudaSuccess);
}
/// Waits for the stream that is PyTorch's; the driver ends a capture there, as CUDA does.
cudaError_t cudaDeviceSynchronize() {
  ++waits;
  return call("cuStreamSynchronize", current_stream);
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  static std::set<std::pair<int, int>> known;
  if (!known.insert({current, peer}).second) return last = cudaErrorPeerAccessAlreadyEnabled;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call("cuMemGetInfo_v2", free, total);
}
cudaError_t cudaMalloc(void** ptr, size_t size) {
  const cudaError_t result = call("cuMemAlloc_v2", reinterpret_cast<unsigned long long*>(ptr), size);
  const std::lock_guard lock(sizes_mutex);
  if (result == cudaSuccess) sizes[*ptr] = size;
  return result;
}
cudaError_t cudaFree(void* ptr) {
  {
    const std::lock_guard lock(sizes_mutex);
    sizes.erase(ptr);
  }
  return call("cuMemFree_v2", reinterpret_cast<unsigned long long>(ptr));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind, cudaStream_t stream) {
  return call("cuMemcpyAsync", reinterpret_cast<unsigned long long>(to),
              reinterpret_cast<unsigned long long>(from), size, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, size, kind, nullptr);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, cudaStream_t) {
  std::memmove(to, from, size);  // the driver reaches both
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cuEventCreate", event, flags);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call("cuEventRecord", event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call("cuEventQuery", event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cuEventDestroy_v2", event);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call("cuThreadExchangeStreamCaptureMode", mode);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call("cuStreamWaitEvent", stream, event, flags);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData**,
                                     size_t* count) {
  {
    const std::lock_guard lock(questions_mutex);
    questions.insert({std::this_thread::get_id(), stream});
  }
  return call("cuStreamGetCaptureInfo_v2", stream, status, id, graph, nodes, count);
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData*, size_t count, unsigned flags) {
  return call("cuStreamUpdateCaptureDependencies", stream, nodes, count, flags);
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* after, cudaGraphEdgeData*,
                                         size_t* count) {
  return call("cuGraphNodeGetDependencies", node, after, count);
}

}  // extern "C"

namespace c10 {

std::vector<std::string>& warnings() {
  static std::vector<std::string> all;
  return all;
}

std::optional<bool> utils::check_env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional(std::string(value) == "1") : std::nullopt;
}

namespace {
Allocator* of_cuda = nullptr;
uint8_t priority_of_cuda = 1;
}  // namespace
void SetAllocator(DeviceType, Allocator* allocator, uint8_t priority) {
  if (priority < priority_of_cuda) return;
  of_cuda = allocator;
  priority_of_cuda = priority;
}
Allocator* GetAllocator(const DeviceType&) {
  return of_cuda;
}
bool memoryProfilingEnabled() {
  return false;
}
void reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, Device) {}
void reportOutOfMemoryToProfiler(int64_t, size_t, size_t, Device) {}

approx_time_t getApproximateTime() {
  static std::atomic<uint64_t> ticks{0};
  return ++ticks;
}
std::function<int64_t(approx_time_t)> ApproximateClockToUnixTimeConverter::makeConverter() {
  return [](approx_time_t ticks) { return static_cast<int64_t>(ticks) * 1000; };
}

const impl::PyInterpreter::Functions* impl::PyInterpreter::operator->() const {
  return nullptr;
}

CachingAllocator::Settings& CachingAllocator::settings() {
  static Settings all;
  return all;
}

CachingDeviceAllocator::TraceEntry::Action CachingDeviceAllocator::parseTraceEntryAction(
    std::string_view action) {
  constexpr std::array<std::string_view, 9> kNames = {"alloc",         "free_requested", "free_completed",
                                                      "segment_alloc", "segment_free",   "segment_map",
                                                      "segment_unmap", "snapshot",       "oom"};
  const auto found = std::find(kNames.begin(), kNames.end(), action);
  TORCH_CHECK(found != kNames.end(), "Unknown action: ", action);
  return static_cast<TraceEntry::Action>(found - kNames.begin());
}

std::vector<std::string> FreeMemoryCallbacks::Keys() const {
  return {};
}
std::unique_ptr<FreeMemoryCallback> FreeMemoryCallbacks::Create(const std::string&) const {
  return nullptr;
}
FreeMemoryCallbacks* FreeCudaMemoryCallbacksRegistry() {
  static FreeMemoryCallbacks none;
  return &none;
}

namespace cuda {

CUDAStream getCurrentCUDAStream(DeviceIndex) {
  return CUDAStream(current_stream);
}
cudaError_t GetDevice(DeviceIndex* device) {
  *device = static_cast<DeviceIndex>(current);
  return cudaSuccess;
}
CUDAGuard::CUDAGuard(DeviceIndex device) {
  C10_CUDA_CHECK(cudaGetDevice(&before_));
  C10_CUDA_CHECK(cudaSetDevice(device));
}
CUDAGuard::~CUDAGuard() {
  (void)cudaSetDevice(before_);
}

std::pair<size_t, size_t> CUDACachingAllocator::CUDAAllocator::getMemoryInfo(DeviceIndex device) {
  const CUDAGuard guard(device);
  size_t free = 0;
  size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return {free, total};
}

namespace {
stand_in::OtherAllocator native;
}
std::atomic<CUDACachingAllocator::CUDAAllocator*> CUDACachingAllocator::allocator{&native};

}  // namespace cuda
}  // namespace c10

namespace stand_in {

void set_current_stream(cudaStream_t stream) {
  current_stream = stream;
}
int device_waits() {
  return waits;
}
size_t driver_bytes() {
  const std::lock_guard lock(sizes_mutex);
  size_t all = 0;
  for (const auto& [ptr, size] : sizes) all += size;
  return all;
}
bool has_asked(std::thread::id thread, cudaStream_t stream) {
  const std::lock_guard lock(questions_mutex);
  return questions.contains({thread, stream});
}

void* OtherAllocator::raw_alloc(size_t size) {
  void* ptr = nullptr;
  return cudaMalloc(&ptr, size) == cudaSuccess ? ptr : nullptr;
}
void OtherAllocator::raw_delete(void* ptr) {
  (void)cudaFree(ptr);
}

}  // namespace stand_in
