// SPDX-License-Identifier: Apache-2.0
// PyTorch's allocator, served by gpupool. It is built on the user's machine against the PyTorch installed
// there, because the class that it derives from changes with PyTorch's versions.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <gpupool/torch.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "blocks.hpp"
#include "captures.hpp"
#include "checkpoints.hpp"
#include "device_pools.hpp"
#include "history.hpp"
#include "ipc.hpp"
#include "limits.hpp"
#include "older.hpp"
#include "peers.hpp"
#include "private_pools.hpp"
#include "profiling.hpp"
#include "pytorch.hpp"
#include "shortages.hpp"
#include "statistics.hpp"
#include "supply.hpp"
#include "uncached.hpp"
#include "watching.hpp"

// Written when the shim is built, for virtual functions of PyTorch's that this file does not know.
#if __has_include("newer.hpp")
#include "newer.hpp"
#else
namespace gpupool_torch {
using Newer = Older;
}
#endif

namespace gpupool_torch {
namespace {

void delete_block(void* ptr);

class Allocator final : public Newer {
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

  /// At an address that a pool of graphs or a MemPool has free; the device's pool chooses its addresses
  /// itself.
  c10::DataPtr allocateWithAddress(size_t size, void* address) override {
    const DeviceIndex device = current_device();
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device);
    const Stack stack = history_.gather(RecordContext::STATE);
    Block block{size, stream, device, nullptr, stack};
    void* ptr = supply_.malloc_at(address, size, device, stream, block.owner);
    TORCH_CHECK(ptr != nullptr, "gpupool: no pool that serves this stream now has ", size, " bytes free at ",
                address);
    note_block(ptr, std::move(block));
    return {ptr, ptr, &delete_block, c10::Device(c10::DeviceType::CUDA, device)};
  }

  void raw_delete(void* ptr) override {
    if (ptr == nullptr || is_inherited_) return;
    trace_free(ptr);
    if (uncached_.give_back(ptr)) return;
    Stack stack = history_.gather(RecordContext::ALL);
    const auto block = blocks_.take(ptr);
    TORCH_CHECK(block, "gpupool: ", ptr, " is not a live block of PyTorch's");
    if (stack == nullptr) stack = block->stack;
    const History::Subject subject = subject_of(ptr, *block);
    history_.record(TraceEntry::FREE_REQUESTED, subject, stack);
    history_.record(TraceEntry::FREE_COMPLETED, subject, stack);
    if (block->owner != nullptr) {
      privates_.free(block->owner, ptr);
    } else {
      (void)gpupool_free(devices_.find(block->device), reinterpret_cast<uintptr_t>(ptr),
                         number(block->stream));
    }
    profile(ptr, -static_cast<int64_t>(block->size), block->device, statistics_);
  }

  void recordStream(const c10::DataPtr& ptr, c10::cuda::CUDAStream stream) override {
    if (ptr.get() == nullptr || ptr.get_deleter() != &delete_block || is_inherited_)
      return;  // nothing of ours
    const auto block = blocks_.find(ptr.get());
    if (!block || block->stream == stream.stream()) return;
    if (block->owner != nullptr) return privates_.record_stream(block->owner, ptr.get(), stream.stream());
    (void)gpupool_record_stream(devices_.find(block->device), reinterpret_cast<uintptr_t>(ptr.get()),
                                number(stream.stream()));
  }

  void* getBaseAllocation(void* ptr, size_t* size) override {
    gpupool_block_t block{};
    const bool is_ours = devices_.owner_of(ptr, block) != nullptr;
    if (size != nullptr) *size = is_ours ? block.allocated_bytes : 0;
    return is_ours ? reinterpret_cast<void*>(block.address) : ptr;
  }

  void copy_data(void* to, const void* from, size_t size) const override {
    C10_CUDA_CHECK(cudaMemcpy(to, from, size, cudaMemcpyDeviceToDevice));
  }

  // ---- the process

  void init(int device_count) override {
    gpupool_torch_init(device_count);
    Limits::tell_what_is_ignored();
    device_count_ = device_count;
    initialized_ = true;
  }

  bool initialized() override { return initialized_; }

  /// Runs in a child of fork. Its blocks are the parent's, and other threads may have held any lock here.
  void after_fork() { is_inherited_ = initialized_.load(); }

  std::string name() override { return "gpupool"; }
  void enable(bool enabled) override { uncached_.set_enabled(enabled); }
  bool isEnabled() const override { return uncached_.is_enabled(); }

  // ---- limits, and giving back

  double getMemoryFraction(DeviceIndex device) override {
    return limits_.get(device, used(device), getMemoryInfo(device).second);
  }

  void setMemoryFraction(double fraction, DeviceIndex device) override {
    limits_.set(fraction, device, used(device), getMemoryInfo(device).second);
  }

  /// Empties one pool, or all of them and the devices' own. Memory that a graph may still use stays.
  void emptyCache(MempoolId_t id) override {
    const ActingStack acting(history_.gather(RecordContext::ALL));
    (void)privates_.give_back(id);
    if (id == MempoolId_t{0, 0}) {
      devices_.empty();
      statistics_.note_empty();
      for (int device = 0; device < device_count_; ++device) tighten(static_cast<DeviceIndex>(device));
    }
    watching_.note_all_mappings(device_count_);
  }

  void cacheInfo(DeviceIndex device, size_t* largest) override {
    size_t room = getMemoryInfo(device).first;
    if (gpupool_t* pool = devices_.find(device)) {
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
    if (gpupool_t* pool = devices_.find(device)) (void)gpupool_reset_peaks(pool);
    privates_.reset_peaks(device);
  }

  SnapshotInfo snapshot(MempoolId_t id, bool include_traces) override {
    return watching_.snapshot(id, include_traces, device_count_);
  }

  void recordHistory(bool enabled, CreateContextFn context, size_t capacity, RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) override {
    const bool was_on = history_.is_on();
    history_.configure(enabled, context, capacity, when, clear, skipped);
    if (enabled && !was_on) watching_.start(device_count_);
  }
  bool isHistoryEnabled() override { return history_.is_on(); }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& words) override {
    history_.annotate(current_device(), words);
  }
  void pushCompileContext(std::string& name) override { history_.push_region(name); }
  void popCompileContext() override { history_.pop_region(); }
  bool supportsUserMetadata() override { return true; }
  void setUserMetadata(const std::string& words) override { History::metadata() = words; }
  std::string getUserMetadata() override { return History::metadata(); }

  /// An event of its own, with the block's address. Of a block that is not live, it changes nothing.
  void annotateMemory([[maybe_unused]] const void* ptr, [[maybe_unused]] const std::string& words) override {
#if GPUPOOL_PYTORCH >= 214
    void* address = const_cast<void*>(ptr);
    const auto block = blocks_.find(address);
    if (block) history_.record(TraceEntry::ANNOTATE, subject_of(address, *block), block->stack, words);
#endif
  }

  /// Where the program was when it allocated the block, while a history is kept.
  Stack getContextForPointer(const void* ptr) override {
    return blocks_.stack_of(reinterpret_cast<uintptr_t>(ptr));
  }

  void attachOomRejectionObserver(OomRejectionObserver observer) override {
    shortages_.add_rejection_observer(std::move(observer));
  }

  void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override {
    shortages_.add_observer(std::move(observer));
  }

  /// Trackers hear of blocks, and of the segments of graphs and MemPools; NCCL registers these.
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {
    history_.add_tracker(std::move(tracker));
  }

  std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override {
    std::vector<StreamSegmentSize> sizes;
    for (const SegmentInfo& each : watching_.segments_of(device)) {
      sizes.emplace_back(static_cast<cudaStream_t>(each.stream), !each.is_large, each.total_size);
    }
    return sizes;
  }

  // ---- pools of graphs, and torch.cuda.MemPool

  void beginAllocateToPool(DeviceIndex device, MempoolId_t id,
                           std::function<bool(cudaStream_t)> filter) override {
    privates_.begin(device, id, std::move(filter));
  }

  void endAllocateToPool(DeviceIndex device, MempoolId_t id) override {
    privates_.end(device, id);
  }
  void markCaptureBegin(DeviceIndex device) override {
    captures_.begin(device);
  }
  void markCaptureEnd(DeviceIndex device) override {
    captures_.end(device);
    privates_.give_back_due();
  }
  void releasePool(DeviceIndex device, MempoolId_t id) override {
    privates_.release(device, id);
  }
  int getPoolUseCount(DeviceIndex device, MempoolId_t id) override {
    return privates_.use_count(device, id);
  }

  void createOrIncrefPool(DeviceIndex device, MempoolId_t id,
                          std::shared_ptr<CUDAAllocator> allocator) override {
    privates_.retain(device, id, std::move(allocator));
  }

  void setUseOnOOM(DeviceIndex device, MempoolId_t id, bool use_on_oom) override {
    privates_.with(device, id, [=](PrivatePool& pool) { pool.serves_shortages = use_on_oom; });
  }

  void setNoSplit(DeviceIndex device, MempoolId_t id) override {
    privates_.with(device, id, [](PrivatePool& pool) { pool.no_split = true; });
  }

  bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t id,
                                const std::unordered_set<void*>& expected) override {
    return are_live(privates_.live(device, id), expected);
  }

  std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t id) override {
    return std::make_shared<Checkpoint>(id, privates_.live(device, id));
  }

  CheckpointDelta setCheckpointPoolState(DeviceIndex device, std::shared_ptr<AllocatorState> state) override {
    return restore(state, device, privates_, blocks_, &delete_block);
  }

  // ---- other processes and other devices

  ShareableHandle shareIpcHandle(void* ptr) override {
    const auto block = blocks_.find(ptr);
    return sharing_.share(ptr, block ? block->size : 0);
  }

  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return sharing_.open(used(current_device()), handle);
  }

  void enablePeerAccess(DeviceIndex device, DeviceIndex device_to_access) override {
    enable_peer(device, device_to_access, used(device_to_access));
  }

  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t size,
                          cudaStream_t stream, bool p2p_enabled) override {
    return copy_between(to, to_device, from, from_device, size, stream, p2p_enabled);
  }

 private:
  static DeviceIndex current_device() {
    DeviceIndex device = -1;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    return device;
  }

  static gpupool_stream_t number(cudaStream_t stream) {
    return reinterpret_cast<gpupool_stream_t>(stream);
  }

  static History::Subject subject_of(void* ptr, const Block& block) {
    const MempoolId_t pool = block.owner != nullptr ? block.owner->id : MempoolId_t{0, 0};
    return {block.device, reinterpret_cast<size_t>(ptr), block.size, block.stream, pool};
  }

  /// The device's pool, for callers that need one.
  gpupool_t* used(DeviceIndex device) {
    gpupool_t* pool = devices_.use(device);
    TORCH_CHECK(pool != nullptr, "gpupool: ", last_error());
    return pool;
  }

  void* obtain(size_t size, DeviceIndex device, cudaStream_t stream) {
    if (size == 0) return nullptr;
    TORCH_CHECK(!is_inherited_, "gpupool: CUDA cannot be used in a forked child of a process that used it");
    const Stack stack = history_.gather(RecordContext::STATE);
    const ActingStack acting(stack);
    void* ptr = nullptr;
    if (C10_UNLIKELY(uncached_.is_on())) {
      ptr = uncached_.obtain(size, device, used(device));
      if (ptr == nullptr) raise_shortage(size, device, "CUDA out of memory. The cache is switched off.");
    } else {
      Block block{size, stream, device, nullptr, stack};
      ptr = supply_.malloc(size, device, stream, block.owner);
      if (C10_UNLIKELY(ptr == nullptr)) {
        if (must_reject(block.owner))
          shortages_.reject(size, device, getMemoryInfo(device).second,
                            Supply::explain(size, device, block.owner).c_str());
        std::string why;
        ptr = supply_.malloc_at_last(size, device, stream, block.owner, why);
        if (ptr == nullptr) raise_shortage(size, device, why.c_str());
      }
      note_block(ptr, std::move(block));
      return ptr;
    }
    trace_allocation(ptr);
    return ptr;
  }

  /// Tells all who keep books that the block is live.
  void note_block(void* ptr, Block block) {
    const DeviceIndex device = block.device;
    const size_t size = block.size;
    if (C10_UNLIKELY(history_.is_watched())) {
      watching_.note_mappings(device, false);
      history_.record(TraceEntry::ALLOC, subject_of(ptr, block), block.stack);
    }
    blocks_.insert(ptr, std::move(block));
    profile(ptr, static_cast<int64_t>(size), device, statistics_);
    trace_allocation(ptr);
  }

  /// Whether throw_on_cudamalloc_oom wants a malloc that just failed to be refused, with nothing freed for
  /// it.
  static bool must_reject(const PrivatePool* owner) {
    return (owner == nullptr || !owner->is_foreign()) && settings_in_force().throws_early &&
           Supply::is_over_limit();
  }

  [[noreturn]] void raise_shortage(size_t size, DeviceIndex device, const char* text) {
    const auto [free, total] = getMemoryInfo(device);
    shortages_.raise(size, device, free, total, text);
  }

  /// A segment of a private pool has come or goes.
  void note_segment(const PrivatePool& pool, const Segment& segment, bool has_come) {
    watching_.note_segment(pool, segment, has_come);
  }

  void tighten(DeviceIndex device) {
    if (gpupool_t* pool = devices_.find(device)) limits_.tighten(device, pool);
  }

  void prepare(DeviceIndex device, gpupool_t* pool) {
    limits_.apply_setting(device, pool, getMemoryInfo(device).second);
  }

  Blocks blocks_;
  Limits limits_;
  Uncached uncached_;
  History history_;
  DevicePools devices_{[this](DeviceIndex device, gpupool_t* pool) { prepare(device, pool); }};
  Sharing sharing_{devices_};
  Captures captures_{devices_};
  PrivatePools privates_{devices_, captures_,
                         [this](const PrivatePool& pool, const Segment& segment, bool has_come) {
                           note_segment(pool, segment, has_come);
                         }};
  Supply supply_{devices_, privates_};
  Statistics statistics_{devices_, privates_};
  Watching watching_{history_, blocks_, devices_, privates_};
  Shortages shortages_{history_, statistics_};
  std::atomic<bool> initialized_{false};
  std::atomic<bool> is_inherited_{false};
  std::atomic<int> device_count_{0};
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
  pthread_atfork(nullptr, nullptr, [] { gpupool_torch::instance().after_fork(); });
  // Since 2.12, PyTorch's own has a priority, and one of a lower priority is ignored without a word.
  c10::SetAllocator(c10::DeviceType::CUDA, &ours, std::numeric_limits<uint8_t>::max());
  allocator.store(&ours);
  return 0;
}
