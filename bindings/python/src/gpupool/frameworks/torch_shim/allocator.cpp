// SPDX-License-Identifier: Apache-2.0
// PyTorch's allocator, served by gpupool. Built on the user's machine against the PyTorch that is installed
// there, since the class that it derives from changes with PyTorch's versions.
#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <gpupool/frameworks.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "blocks.hpp"
#include "history.hpp"
#include "ipc.hpp"
#include "private_pools.hpp"
#include "statistics.hpp"

namespace gpupool_torch {
namespace {

using namespace c10::cuda::CUDACachingAllocator;  // NOLINT: this file implements its interface
void delete_block(void* ptr);

#define GPUPOOL_CANNOT(what, instead) \
  TORCH_CHECK(false, "gpupool as PyTorch's allocator does not support " what ". " instead)

class Allocator final : public CUDAAllocator {
 public:
  // ---- memory

  c10::DataPtr allocate(size_t size) override {
    DeviceIndex device = -1;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    void* ptr = obtain(size, device, c10::cuda::getCurrentCUDAStream(device));
    return {ptr, ptr, &delete_block, c10::Device(c10::DeviceType::CUDA, device)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }

  void* raw_alloc(size_t size) override {
    DeviceIndex device = -1;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    return obtain(size, device, c10::cuda::getCurrentCUDAStream(device));
  }

  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
    DeviceIndex device = -1;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    return obtain(size, device, stream);
  }

  void raw_delete(void* ptr) override {
    if (ptr == nullptr) return;
    const auto block = blocks_.take(ptr);
    TORCH_CHECK(block, "gpupool: ", ptr, " is not a live block of PyTorch's");
    if (const auto* trace = c10::impl::GPUTrace::get_trace()) {
      (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
    }
    const auto address = reinterpret_cast<size_t>(ptr);
    history_.record(TraceEntry::FREE_REQUESTED, block->device, address, block->size, block->stream);
    history_.record(TraceEntry::FREE_COMPLETED, block->device, address, block->size, block->stream);
    if (block->owner != nullptr) {
      privates_.free(block->owner, ptr);
    } else {
      sharing_.forget(ptr);
      gpupool_torch_free(ptr, block->size, block->device, block->stream);
    }
    profile(ptr, -static_cast<int64_t>(block->size), block->device);
  }

  void recordStream(const c10::DataPtr& ptr, c10::cuda::CUDAStream stream) override {
    if (ptr.get() == nullptr || ptr.get_deleter() != &delete_block) return;  // nothing, or not ours
    const auto block = blocks_.find(ptr.get());
    if (!block || block->stream == stream.stream()) return;
    if (block->owner != nullptr) return privates_.record_stream(block->owner, ptr.get(), stream.stream());
    gpupool_torch_record_stream(ptr.get(), stream.stream());
  }

  void* getBaseAllocation(void* ptr, size_t* size) override { return gpupool_torch_base_alloc(ptr, size); }

  void copy_data(void* to, const void* from, size_t size) const override {
    C10_CUDA_CHECK(cudaMemcpy(to, from, size, cudaMemcpyDeviceToDevice));
  }

  // ---- the process

  void init(int device_count) override {
    gpupool_torch_init(device_count);
    device_count_ = device_count;
    initialized_ = true;
  }

  bool initialized() override { return initialized_; }
  std::string name() override { return "gpupool"; }
  void enable(bool) override {}
  bool isEnabled() const override { return true; }

  // ---- limits, and giving back

  double getMemoryFraction(DeviceIndex device) override {
    const uint64_t limit = gpupool_torch_limit(device);
    return limit == 0 ? 1.0 : static_cast<double>(limit) / static_cast<double>(getMemoryInfo(device).second);
  }

  void setMemoryFraction(double fraction, DeviceIndex device) override {
    gpupool_torch_memory_fraction(fraction, device);
  }

  void emptyCache(MempoolId_t id) override {
    (void)privates_.give_back(id);
    gpupool_torch_reset();
  }

  void cacheInfo(DeviceIndex device, size_t* largest) override {
    size_t room = getMemoryInfo(device).first;
    if (gpupool_t* pool = pool_of(device)) {
      const gpupool_stats_t stats = stats_of(pool);
      room += stats.cached_bytes;
      const uint64_t active = stats.all.active_bytes.current;
      if (stats.limit_bytes != 0)
        room = std::min(room, stats.limit_bytes - std::min(stats.limit_bytes, active));
    }
    *largest = std::max(*largest, room);
  }

  // ---- watching

  DeviceStats getDeviceStats(DeviceIndex device) override { return statistics_.of(device); }
  void resetAccumulatedStats(DeviceIndex device) override { statistics_.reset_accumulated(device); }

  void resetPeakStats(DeviceIndex device) override {
    if (gpupool_t* pool = pool_of(device)) (void)gpupool_reset_peaks(pool);
  }

  SnapshotInfo snapshot(MempoolId_t id, bool include_traces) override {
    SnapshotInfo result;
    result.config_metadata = {};
    result.config_metadata.max_split_size = static_cast<size_t>(-1);
    result.config_metadata.pinned_num_register_threads = 1;
    result.config_metadata.expandable_segments = true;
    result.config_metadata.last_allocator_settings = "backend:gpupool";
    result.config_metadata.roundup_power2_divisions.resize(16);
    for (int device = 0; device < device_count_; ++device) {
      const auto all = segments_of(static_cast<DeviceIndex>(device));
      std::copy_if(all.begin(), all.end(), std::back_inserter(result.segments), [&](const SegmentInfo& each) {
        return id == MempoolId_t{0, 0} || id == each.owner_private_pool_id;
      });
    }
    if (include_traces) result.device_traces = history_.entries();
    result.device_traces.resize(static_cast<size_t>(device_count_));
    return result;
  }

  void recordHistory(bool enabled, CreateContextFn context, size_t capacity, RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) override {
    history_.configure(enabled, context, capacity, when, clear, skipped);
  }
  bool isHistoryEnabled() override { return history_.is_on(); }

  void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override {
    const std::lock_guard lock(observers_mutex_);
    observers_.push_back(std::move(observer));
  }

  void attachAllocatorTraceTracker(AllocatorTraceTracker) override {
    GPUPOOL_CANNOT("trackers of segments", "Leave TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK unset.");
  }

  std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override {
    std::vector<StreamSegmentSize> sizes;
    for (const SegmentInfo& each : segments_of(device)) {
      sizes.emplace_back(static_cast<cudaStream_t>(each.stream), !each.is_large, each.total_size);
    }
    return sizes;
  }

  // ---- pools of graphs, and torch.cuda.MemPool

  void beginAllocateToPool(DeviceIndex device, MempoolId_t id,
                           std::function<bool(cudaStream_t)> filter) override {
    privates_.begin(device, id, std::move(filter));
  }

  void endAllocateToPool(DeviceIndex device, MempoolId_t id) override { privates_.end(device, id); }
  void releasePool(DeviceIndex device, MempoolId_t id) override { privates_.release(device, id); }
  int getPoolUseCount(DeviceIndex device, MempoolId_t id) override { return privates_.use_count(device, id); }

  void createOrIncrefPool(DeviceIndex device, MempoolId_t id,
                          std::shared_ptr<CUDAAllocator> allocator) override {
    if (allocator) {
      GPUPOOL_CANNOT("a MemPool with an allocator of its own", "Create it as torch.cuda.MemPool().");
    }
    privates_.retain(device, id);
  }

  void setUseOnOOM(DeviceIndex, MempoolId_t, bool use_on_oom) override {
    if (use_on_oom) GPUPOOL_CANNOT("MemPool(use_on_oom=True)", "Drop the pool to make its memory free.");
  }

  void setNoSplit(DeviceIndex device, MempoolId_t id) override { privates_.set_no_split(device, id); }

  bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t id,
                                const std::unordered_set<void*>& expected) override {
    std::unordered_set<void*> live;
    for (const PrivateBlock& each : privates_.live(device, id)) {
      live.insert(reinterpret_cast<void*>(each.address));
    }
    return live == expected;
  }

  std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t id) override {
    auto state = std::make_shared<Checkpoint>();
    state->id = id;
    state->blocks = privates_.live(device, id);
    return state;
  }

  /// As PyTorch's own does, this names all blocks that were live as freed, and all of the checkpoint as new.
  CheckpointDelta setCheckpointPoolState(DeviceIndex device, std::shared_ptr<AllocatorState> state) override {
    const auto* wanted = dynamic_cast<const Checkpoint*>(state.get());
    TORCH_CHECK(wanted != nullptr, "gpupool: a checkpoint of another allocator");
    const auto [before, pool] = privates_.set_live(device, wanted->id, wanted->blocks);
    CheckpointDelta delta;
    for (const PrivateBlock& each : before) {
      delta.ptrs_freed.push_back(reinterpret_cast<void*>(each.address));
      (void)blocks_.take(delta.ptrs_freed.back());
    }
    for (const PrivateBlock& each : wanted->blocks) {
      void* ptr = reinterpret_cast<void*>(each.address);
      blocks_.insert(ptr, {each.requested, each.stream, device, pool});
      delta.dataptrs_allocd.emplace_back(ptr, ptr, &delete_block, c10::Device(c10::DeviceType::CUDA, device));
    }
    return delta;
  }

  // ---- other processes and other devices

  ShareableHandle shareIpcHandle(void* ptr) override {
    for (int device = 0; device < device_count_; ++device) {
      gpupool_t* pool = pool_of(device);
      gpupool_block_t block{};
      if (pool != nullptr &&
          gpupool_block_info(pool, reinterpret_cast<uintptr_t>(ptr), &block, sizeof block) == 0) {
        return sharing_.share(pool, ptr);
      }
    }
    return sharing_.share(nullptr, ptr);
  }

  std::shared_ptr<void> getIpcDevPtr(std::string handle) override { return sharing_.open(handle); }

  /// The copy through the driver needs no access of one device to the other's memory.
  void enablePeerAccess(DeviceIndex, DeviceIndex) override {}

  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t size,
                          cudaStream_t stream, bool) override {
    if (to_device == from_device) return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);
  }

 private:
  struct Checkpoint final : AllocatorState {
    MempoolId_t id;
    std::vector<PrivateBlock> blocks;
  };

  void* obtain(size_t size, DeviceIndex device, cudaStream_t stream) {
    if (size == 0) return nullptr;
    PrivatePool* owner = nullptr;
    void* ptr = try_obtain(size, device, stream, owner);
    if (C10_UNLIKELY(ptr == nullptr)) ptr = obtain_at_last(size, device, stream, owner);
    blocks_.insert(ptr, {size, stream, device, owner});
    if (const auto* trace = c10::impl::GPUTrace::get_trace()) {
      (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
    }
    history_.record(TraceEntry::ALLOC, device, reinterpret_cast<size_t>(ptr), size, stream);
    profile(ptr, static_cast<int64_t>(size), device);
    return ptr;
  }

  void* try_obtain(size_t size, DeviceIndex device, cudaStream_t stream, PrivatePool*& owner) {
    if (C10_UNLIKELY(privates_.is_routing())) {
      void* ptr = privates_.malloc(size, device, stream, owner);
      if (owner != nullptr) return ptr;
    }
    return gpupool_torch_alloc(size, device, stream);
  }

  /// Gives back what graphs left, lets PyTorch free what it only keeps for other processes, and tries again.
  void* obtain_at_last(size_t size, DeviceIndex device, cudaStream_t stream, PrivatePool*& owner) {
    std::array<char, 2048> text;
    bool is_shortage = gpupool_torch_explain(size, device, text.data(), text.size()) != 0;
    bool freed = false;
    if (is_shortage) {
      freed = privates_.give_back({0, 0});
      for (const auto& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
        freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
      }
    }
    if (freed) {
      if (void* ptr = try_obtain(size, device, stream, owner)) return ptr;
      is_shortage = gpupool_torch_explain(size, device, text.data(), text.size()) != 0;
    }
    TORCH_CHECK(is_shortage, text.data());
    report_shortage(size, device);
    TORCH_CHECK_WITH(OutOfMemoryError, false, text.data());
  }

  std::vector<SegmentInfo> segments_of(DeviceIndex device) {
    std::vector<SegmentInfo> all;
    if (gpupool_t* pool = pool_of(device)) Snapshot(device, pool, privates_.segments(device)).append_to(all);
    return all;
  }

  void report_shortage(size_t size, DeviceIndex device) {
    const auto [free, total] = getMemoryInfo(device);
    history_.record(TraceEntry::OOM, device, free, size, nullptr);
    const DeviceStats stats = statistics_.of(device);
    c10::reportOutOfMemoryToProfiler(
        static_cast<int64_t>(size), static_cast<size_t>(stats.allocated_bytes[0].current),
        static_cast<size_t>(stats.reserved_bytes[0].current), c10::Device(c10::DeviceType::CUDA, device));
    std::vector<OutOfMemoryObserver> observers;
    {
      const std::lock_guard lock(observers_mutex_);
      observers = observers_;
    }
    for (const OutOfMemoryObserver& observer : observers) observer(device, size, total, free);
  }

  void profile(void* ptr, int64_t change, DeviceIndex device) {
    if (C10_LIKELY(!c10::memoryProfilingEnabled())) return;
    const DeviceStats stats = statistics_.of(device);
    c10::reportMemoryUsageToProfiler(ptr, change, static_cast<size_t>(stats.allocated_bytes[0].current),
                                     static_cast<size_t>(stats.reserved_bytes[0].current),
                                     c10::Device(c10::DeviceType::CUDA, device));
  }

  Blocks blocks_;
  Sharing sharing_;
  PrivatePools privates_{[this](void* segment) { sharing_.forget(segment); }};
  Statistics statistics_{privates_};
  History history_;
  std::atomic<bool> initialized_{false};
  std::atomic<int> device_count_{0};
  std::mutex observers_mutex_;
  std::vector<OutOfMemoryObserver> observers_;
};

/// Leaked on purpose: tensors are freed until the very end of the process.
Allocator& instance() {
  static auto* const allocator = new Allocator;
  return *allocator;
}

void delete_block(void* ptr) {
  instance().raw_delete(ptr);
}

}  // namespace
}  // namespace gpupool_torch

/// Makes gpupool PyTorch's allocator for CUDA. Returns 0, or 1 if another one is in use already.
extern "C" __attribute__((visibility("default"))) int gpupool_torch_install() {
  using c10::cuda::CUDACachingAllocator::allocator;
  auto& ours = gpupool_torch::instance();
  if (allocator.load() == &ours) return 0;
  if (allocator.load()->initialized()) return 1;
  c10::SetAllocator(c10::DeviceType::CUDA, &ours);
  allocator.store(&ours);
  return 0;
}
