// SPDX-License-Identifier: Apache-2.0
// What tests set in the stand-in for PyTorch, and what they see there.
#pragma once

#include <thread>

#include "types.hpp"

namespace stand_in {

/// The stream that PyTorch's current one is, on every device.
void set_current_stream(cudaStream_t stream);

/// How often the device was waited for.
int device_waits();

/// Bytes that cudaMalloc gave and cudaFree has not taken back.
size_t driver_bytes();

/// Whether this thread has asked the driver where a stream is in its capture.
bool has_asked(std::thread::id thread, cudaStream_t stream);

/// Another allocator: of memory from cudaMalloc, and of nothing else that an allocator can do.
class OtherAllocator : public c10::cuda::CUDACachingAllocator::CUDAAllocator {
 public:
  using DeviceIndex = c10::DeviceIndex;
  using Id = c10::MempoolId_t;

  void* raw_alloc(size_t size) override;
  void* raw_alloc_with_stream(size_t size, cudaStream_t) override { return raw_alloc(size); }
  void raw_delete(void* ptr) override;

  c10::DataPtr allocate(size_t) override { unused(); }
  void copy_data(void*, const void*, size_t) const override { unused(); }
  void init(int) override { unused(); }
  bool initialized() override { return false; }
  double getMemoryFraction(DeviceIndex) override { unused(); }
  void setMemoryFraction(double, DeviceIndex) override { unused(); }
  std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize> getExpandableSegmentSizes(
      DeviceIndex) override {
    unused();
  }
  void emptyCache(Id) override { unused(); }
  void enable(bool) override { unused(); }
  bool isEnabled() const override { unused(); }
  void cacheInfo(DeviceIndex, size_t*) override { unused(); }
  void* getBaseAllocation(void*, size_t*) override { unused(); }
  void recordStream(const c10::DataPtr&, c10::cuda::CUDAStream) override { unused(); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex) override { unused(); }
  void resetAccumulatedStats(DeviceIndex) override { unused(); }
  void resetPeakStats(DeviceIndex) override { unused(); }
  c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot(Id, bool) override { unused(); }
  void beginAllocateToPool(DeviceIndex, Id, std::function<bool(cudaStream_t)>) override { unused(); }
  void endAllocateToPool(DeviceIndex, Id) override { unused(); }
  void releasePool(DeviceIndex, Id) override { unused(); }
  int getPoolUseCount(DeviceIndex, Id) override { unused(); }
  void createOrIncrefPool(DeviceIndex, Id, std::shared_ptr<CUDAAllocator>) override { unused(); }
  void setUseOnOOM(DeviceIndex, Id, bool) override { unused(); }
  void setNoSplit(DeviceIndex, Id) override { unused(); }
  bool checkPoolLiveAllocations(DeviceIndex, Id, const std::unordered_set<void*>&) override { unused(); }
  c10::cuda::CUDACachingAllocator::ShareableHandle shareIpcHandle(void*) override { unused(); }
  std::shared_ptr<void> getIpcDevPtr(std::string) override { unused(); }
  bool isHistoryEnabled() override { unused(); }
  void recordHistory(bool, c10::CachingDeviceAllocator::CreateContextFn, size_t,
                     c10::CachingDeviceAllocator::RecordContext, bool,
                     const std::vector<std::string>&) override {
    unused();
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>&) override { unused(); }
  void pushCompileContext(std::string&) override { unused(); }
  void popCompileContext() override { unused(); }
  void setUserMetadata(const std::string&) override { unused(); }
  std::string getUserMetadata() override { unused(); }
  void attachOutOfMemoryObserver(c10::cuda::CUDACachingAllocator::OutOfMemoryObserver) override { unused(); }
  void attachOomRejectionObserver(c10::cuda::CUDACachingAllocator::OomRejectionObserver) override {
    unused();
  }
  void attachAllocatorTraceTracker(c10::CachingDeviceAllocator::AllocatorTraceTracker) override { unused(); }
  void enablePeerAccess(DeviceIndex, DeviceIndex) override { unused(); }
  cudaError_t memcpyAsync(void*, int, const void*, int, size_t, cudaStream_t, bool) override { unused(); }
  std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> getCheckpointState(DeviceIndex,
                                                                                      Id) override {
    unused();
  }
  c10::cuda::CUDACachingAllocator::CheckpointDelta setCheckpointPoolState(
      DeviceIndex, std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState>) override {
    unused();
  }
  std::string name() override { return "other"; }

 private:
  [[noreturn]] static void unused() { throw c10::Error("nobody asks another allocator for this"); }
};

}  // namespace stand_in
