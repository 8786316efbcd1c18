// SPDX-License-Identifier: Apache-2.0
// A stand-in for PyTorch 2.15, with just what the shim uses of it, so that the shim is compiled and run where
// there is no PyTorch. The names and signatures are PyTorch's; a test compiles the shim against its real
// headers too, where they are at hand. What is behind them is in stand_in.cpp.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#define C10_LIKELY(condition) (condition)
#define C10_UNLIKELY(condition) (condition)
#define TORCH_CHECK(condition, ...) \
  if (!(condition)) throw c10::Error(c10::text(__VA_ARGS__))
#define TORCH_CHECK_WITH(type, condition, ...) \
  if (!(condition)) throw c10::type(c10::text(__VA_ARGS__))
#define TORCH_WARN(...) c10::warnings().push_back(c10::text(__VA_ARGS__))
#define TORCH_WARN_ONCE(...) TORCH_WARN(__VA_ARGS__)
#define C10_CUDA_CHECK(call)                                                                         \
  do {                                                                                               \
    if (const cudaError_t c10_cuda_check_error = (call); c10_cuda_check_error != cudaSuccess)        \
      throw c10::Error(c10::text(#call, " failed: error ", static_cast<int>(c10_cuda_check_error))); \
  } while (false)

namespace ska {
template <typename Key, typename Value, typename Hash = std::hash<Key>>
using flat_hash_map = std::unordered_map<Key, Value, Hash>;
}

namespace c10 {

template <typename... Words>
std::string text(const Words&... words) {
  std::ostringstream whole;
  (whole << ... << words);
  return whole.str();
}

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct OutOfMemoryError : Error {
  using Error::Error;
};

/// What TORCH_WARN said.
std::vector<std::string>& warnings();

namespace utils {
std::optional<bool> check_env(const char* name);
}

// ---- devices and memory

using DeviceIndex = int8_t;
enum class DeviceType : int8_t { CPU, CUDA };
constexpr DeviceType kCUDA = DeviceType::CUDA;

struct Device {
  Device(DeviceType kind, DeviceIndex number) : type(kind), index(number) {}
  DeviceType type;
  DeviceIndex index;
};

using DeleterFnPtr = void (*)(void*);

class DataPtr {
 public:
  DataPtr(void* data, void* context, DeleterFnPtr deleter, Device device)
      : data_(data), context_(context), deleter_(deleter), device_(device) {}
  DataPtr(DataPtr&& other) noexcept
      : data_(other.data_),
        context_(std::exchange(other.context_, nullptr)),
        deleter_(other.deleter_),
        device_(other.device_) {}
  DataPtr& operator=(DataPtr&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(context_, other.context_);
    std::swap(deleter_, other.deleter_);
    std::swap(device_, other.device_);
    return *this;
  }
  ~DataPtr() {
    if (context_ != nullptr) deleter_(context_);
  }
  void* get() const { return data_; }
  DeleterFnPtr get_deleter() const { return deleter_; }
  void* release_context() { return std::exchange(context_, nullptr); }

 private:
  void* data_;
  void* context_;
  DeleterFnPtr deleter_;
  Device device_;
};

struct GatheredContext {
  virtual ~GatheredContext() = default;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual DataPtr allocate(size_t size) = 0;
  virtual DeleterFnPtr raw_deleter() const { return nullptr; }
  virtual void copy_data(void* to, const void* from, size_t size) const = 0;
};

/// One of a lower priority than what is there is ignored; PyTorch's own has 1 since 2.12.
void SetAllocator(DeviceType type, Allocator* allocator, uint8_t priority = 0);
Allocator* GetAllocator(const DeviceType& type);
bool memoryProfilingEnabled();
void reportMemoryUsageToProfiler(void* ptr, int64_t change, size_t allocated, size_t reserved, Device device);
void reportOutOfMemoryToProfiler(int64_t size, size_t allocated, size_t reserved, Device device);

using approx_time_t = uint64_t;
approx_time_t getApproximateTime();

class ApproximateClockToUnixTimeConverter {
 public:
  std::function<int64_t(approx_time_t)> makeConverter();
};

namespace impl {
struct PyInterpreter {
  struct Functions {
    void trace_gpu_memory_allocation(DeviceType, uintptr_t) const {}
    void trace_gpu_memory_deallocation(DeviceType, uintptr_t) const {}
  };
  const Functions* operator->() const;
};
struct GPUTrace {
  static const PyInterpreter* get_trace() { return nullptr; }
};
}  // namespace impl

// ---- what allocators of devices have in common

using CaptureId_t = unsigned long long;
using MempoolId_t = std::pair<CaptureId_t, CaptureId_t>;
struct MempoolIdHash {
  size_t operator()(const MempoolId_t& id) const noexcept { return id.first != 0 ? id.first : id.second; }
};

namespace CachingAllocator {

struct Stat {
  void increase(size_t amount) {
    current += static_cast<int64_t>(amount);
    peak = std::max(current, peak);
    allocated += static_cast<int64_t>(amount);
  }
  void decrease(size_t amount) {
    current -= static_cast<int64_t>(amount);
    if (current < 0) throw Error("a statistic has become negative");
    freed += static_cast<int64_t>(amount);
  }
  void reset_peak() { peak = current; }

  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;
  int64_t freed = 0;
};

enum struct StatType : uint64_t { AGGREGATE = 0, SMALL_POOL = 1, LARGE_POOL = 2, NUM_TYPES = 3 };
using StatArray = std::array<Stat, 3>;

/// The settings of PYTORCH_ALLOC_CONF. Tests set them here.
struct Settings {
  size_t max_split_size = std::numeric_limits<size_t>::max();
  double garbage_collection_threshold = 0;
  bool expandable_segments = false;
  bool release_lock = false;
  double memory_fraction = 1;
  bool throws_early = false;
  std::vector<size_t> roundup_divisions = std::vector<size_t>(16);
  std::string text;
};
Settings& settings();

struct AcceleratorAllocatorConfig {
  static size_t max_split_size() { return settings().max_split_size; }
  static const std::vector<size_t>& roundup_power2_divisions() { return settings().roundup_divisions; }
  static double garbage_collection_threshold() { return settings().garbage_collection_threshold; }
  static bool use_expandable_segments() { return settings().expandable_segments; }
};
inline std::string getAllocatorSettings() {
  return settings().text;
}

}  // namespace CachingAllocator

namespace CachingDeviceAllocator {

using namespace CachingAllocator;  // NOLINT: as PyTorch does

struct DeviceStats {
  StatArray allocation;
  StatArray segment;
  StatArray active;
  StatArray inactive_split;
  StatArray allocated_bytes;
  StatArray reserved_bytes;
  ska::flat_hash_map<MempoolId_t, StatArray, MempoolIdHash> reserved_bytes_by_private_pools;
  StatArray active_bytes;
  StatArray inactive_split_bytes;
  StatArray requested_bytes;
  int64_t num_alloc_retries = 0;
  int64_t num_ooms = 0;
  Stat oversize_allocations;
  Stat oversize_segments;
  int64_t num_sync_all_streams = 0;
  int64_t num_device_alloc = 0;
  int64_t num_device_free = 0;
  int64_t num_oom_rejections = 0;
  int64_t max_split_size = 0;
};

using CreateContextFn = std::shared_ptr<GatheredContext> (*)();
enum struct RecordContext { NEVER = 0, STATE = 1, ALLOC = 2, ALL = 3 };

struct BlockInfo {
  size_t size = 0;
  size_t requested_size = 0;
  int32_t gc_counter = 0;
  bool allocated = false;
  bool active = false;
  std::shared_ptr<GatheredContext> context_when_allocated;
};

struct SegmentInfo {
  DeviceIndex device = 0;
  int32_t registration_counter = -1;
  size_t address = 0;
  size_t total_size = 0;
  size_t requested_size = 0;
  size_t allocated_size = 0;
  size_t active_size = 0;
  void* stream = nullptr;
  bool is_large = false;
  bool is_expandable = false;
  MempoolId_t owner_private_pool_id = {0, 0};
  std::vector<BlockInfo> blocks;
  std::shared_ptr<GatheredContext> context_when_allocated;
};

union trace_time_ {
  time_t t_;
  approx_time_t approx_t_;
};

struct TraceEntry {
  enum Action {
    ALLOC,
    FREE_REQUESTED,
    FREE_COMPLETED,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    SNAPSHOT,
    OOM,
    ANNOTATE
  };
  TraceEntry(Action action, DeviceIndex device, size_t address, size_t size, void* stream, MempoolId_t pool,
             approx_time_t time, std::shared_ptr<GatheredContext> context = nullptr,
             std::string compile_context = "", std::string user_metadata = "")
      : action_(action),
        device_(device),
        addr_(address),
        context_(std::move(context)),
        stream_(stream),
        size_(size),
        mempool_(pool),
        compile_context_(std::move(compile_context)),
        user_metadata_(std::move(user_metadata)) {
    time_.approx_t_ = time;
  }
  Action action_;
  DeviceIndex device_;
  size_t addr_;
  std::shared_ptr<GatheredContext> context_;
  void* stream_;
  size_t size_;
  MempoolId_t mempool_;
  trace_time_ time_{};
  std::string compile_context_;
  std::string user_metadata_;
};

TraceEntry::Action parseTraceEntryAction(std::string_view action);

struct AnnotationEntry {
  AnnotationEntry(DeviceIndex device, approx_time_t time) : device_(device) { time_.approx_t_ = time; }
  void recordUserMetadata(const std::string& name, std::string value) { metadata_[name] = std::move(value); }
  DeviceIndex device_;
  trace_time_ time_{};
  std::unordered_map<std::string, std::string> metadata_;
};

using AllocatorTraceTracker = std::function<void(const TraceEntry&)>;

}  // namespace CachingDeviceAllocator

struct DeviceAllocator : Allocator {
  virtual bool initialized() = 0;
  virtual void emptyCache(MempoolId_t id = {0, 0}) = 0;
  virtual CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) = 0;
  virtual void resetAccumulatedStats(DeviceIndex device) = 0;
  virtual void resetPeakStats(DeviceIndex device) = 0;
  virtual std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) = 0;
};

struct FreeMemoryCallback {
  virtual ~FreeMemoryCallback() = default;
  virtual bool Execute() = 0;
};
struct FreeMemoryCallbacks {
  std::vector<std::string> Keys() const;
  std::unique_ptr<FreeMemoryCallback> Create(const std::string& name) const;
};
FreeMemoryCallbacks* FreeCudaMemoryCallbacksRegistry();

// ---- CUDA

namespace cuda {

class CUDAStream {
 public:
  explicit CUDAStream(cudaStream_t stream) : stream_(stream) {}
  cudaStream_t stream() const { return stream_; }
  operator cudaStream_t() const { return stream_; }  // NOLINT: as PyTorch's

 private:
  cudaStream_t stream_;
};
CUDAStream getCurrentCUDAStream(DeviceIndex device = -1);

cudaError_t GetDevice(DeviceIndex* device);

class CUDAGuard {
 public:
  explicit CUDAGuard(DeviceIndex device);
  ~CUDAGuard();
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;

 private:
  int before_ = 0;
};

class CUDAStreamCaptureModeGuard {
 public:
  explicit CUDAStreamCaptureModeGuard(cudaStreamCaptureMode mode) : mode_(mode) {
    C10_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  ~CUDAStreamCaptureModeGuard() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  CUDAStreamCaptureModeGuard(const CUDAStreamCaptureModeGuard&) = delete;
  CUDAStreamCaptureModeGuard& operator=(const CUDAStreamCaptureModeGuard&) = delete;

 private:
  cudaStreamCaptureMode mode_;
};

namespace CUDACachingAllocator {

using CachingDeviceAllocator::AllocatorTraceTracker;
using CachingDeviceAllocator::BlockInfo;
using CachingDeviceAllocator::CreateContextFn;
using CachingDeviceAllocator::DeviceStats;
using CachingDeviceAllocator::RecordContext;
using CachingDeviceAllocator::SegmentInfo;
using CachingDeviceAllocator::TraceEntry;

struct CUDAAllocatorConfig {
  static bool release_lock_on_cudamalloc() { return CachingAllocator::settings().release_lock; }
  static bool graph_capture_record_stream_reuse() { return false; }
  static double per_process_memory_fraction() { return CachingAllocator::settings().memory_fraction; }
  static bool throw_on_cudamalloc_oom() { return CachingAllocator::settings().throws_early; }
  static bool pinned_use_cuda_host_register() { return false; }
  static size_t pinned_num_register_threads() { return 1; }
};

struct AllocatorState {
  virtual ~AllocatorState() = default;
};

struct AllocatorConfigInfo {
  double garbage_collection_threshold;
  size_t max_split_size;
  size_t pinned_num_register_threads;
  bool expandable_segments;
  bool release_lock_on_malloc;
  bool pinned_use_host_register;
  bool graph_capture_record_stream_reuse;
  std::string last_allocator_settings;
  std::vector<size_t> roundup_power2_divisions;
};

struct SnapshotInfo {
  std::vector<SegmentInfo> segments;
  std::vector<std::vector<TraceEntry>> device_traces;
  std::vector<CachingDeviceAllocator::AnnotationEntry> external_annotations;
  AllocatorConfigInfo config_metadata;
};

struct CheckpointDelta {
  std::vector<void*> ptrs_freed;
  std::vector<DataPtr> dataptrs_allocd;
};

using OutOfMemoryObserver = std::function<void(int64_t, size_t, size_t, size_t)>;
using OomRejectionObserver = std::function<void(int64_t, size_t, size_t, size_t)>;

struct ShareableHandle {
  ptrdiff_t offset;
  std::string handle;
};

struct StreamSegmentSize {
  StreamSegmentSize(cudaStream_t s, bool small, size_t size)
      : stream(s), is_small_pool(small), total_size(size) {}
  cudaStream_t stream;
  bool is_small_pool;
  size_t total_size;
};

class CUDAAllocator : public DeviceAllocator {
 public:
  virtual void* raw_alloc(size_t size) = 0;
  virtual void* raw_alloc_with_stream(size_t size, cudaStream_t stream) = 0;
  virtual void raw_delete(void* ptr) = 0;
  virtual void init(int device_count) = 0;
  virtual double getMemoryFraction(DeviceIndex device) = 0;
  virtual void setMemoryFraction(double fraction, DeviceIndex device) = 0;
  virtual std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) = 0;
  virtual void enable(bool value) = 0;
  virtual bool isEnabled() const = 0;
  virtual void cacheInfo(DeviceIndex device, size_t* largest) = 0;
  virtual void* getBaseAllocation(void* ptr, size_t* size) = 0;
  virtual void recordStream(const DataPtr& ptr, CUDAStream stream) = 0;
  virtual SnapshotInfo snapshot(MempoolId_t id = {0, 0}, bool include_traces = true) = 0;
  virtual void beginAllocateToPool(DeviceIndex device, MempoolId_t id,
                                   std::function<bool(cudaStream_t)> filter) = 0;
  virtual void endAllocateToPool(DeviceIndex device, MempoolId_t id) = 0;
  virtual void markCaptureBegin(DeviceIndex) {}
  virtual void markCaptureEnd(DeviceIndex) {}
  virtual void releasePool(DeviceIndex device, MempoolId_t id) = 0;
  virtual int getPoolUseCount(DeviceIndex device, MempoolId_t id) = 0;
  virtual void createOrIncrefPool(DeviceIndex device, MempoolId_t id,
                                  std::shared_ptr<CUDAAllocator> allocator = nullptr) = 0;
  virtual void setUseOnOOM(DeviceIndex device, MempoolId_t id, bool use_on_oom) = 0;
  virtual void setNoSplit(DeviceIndex device, MempoolId_t id) = 0;
  virtual bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t id,
                                        const std::unordered_set<void*>& expected) = 0;
  virtual ShareableHandle shareIpcHandle(void* ptr) = 0;
  virtual std::shared_ptr<void> getIpcDevPtr(std::string handle) = 0;
  virtual bool isHistoryEnabled() = 0;
  virtual std::shared_ptr<GatheredContext> getContextForPointer(const void*) { return nullptr; }
  virtual void recordHistory(bool enabled, CreateContextFn context, size_t capacity, RecordContext when,
                             bool clear, const std::vector<std::string>& skipped) = 0;
  virtual void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& words) = 0;
  virtual void pushCompileContext(std::string& name) = 0;
  virtual void popCompileContext() = 0;
  virtual bool supportsUserMetadata() { return false; }
  virtual void setUserMetadata(const std::string& words) = 0;
  virtual std::string getUserMetadata() = 0;
  virtual void annotateMemory(const void*, const std::string&) {}
  virtual void attachOutOfMemoryObserver(OutOfMemoryObserver observer) = 0;
  virtual void attachOomRejectionObserver(OomRejectionObserver observer) = 0;
  virtual void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) = 0;
  virtual void enablePeerAccess(DeviceIndex device, DeviceIndex device_to_access) = 0;
  virtual cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t size,
                                  cudaStream_t stream, bool p2p_enabled) = 0;
  virtual std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t id) = 0;
  virtual CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                                 std::shared_ptr<AllocatorState> state) = 0;
  virtual DataPtr allocateWithAddress(size_t, void*) { throw Error("allocateWithAddress is not supported"); }
  virtual std::string name() = 0;
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override;
};

extern std::atomic<CUDAAllocator*> allocator;

}  // namespace CUDACachingAllocator
}  // namespace cuda
}  // namespace c10
