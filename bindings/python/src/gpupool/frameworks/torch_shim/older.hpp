// SPDX-License-Identifier: Apache-2.0
// The virtual functions of the newest PyTorch that we know, over those of the older ones: the shim overrides
// the newest's, and this forwards to them what an older PyTorch calls. Each step is a release that changed
// some. A PyTorch that is newer still is newer.hpp's concern, which is written when the shim is built.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pytorch.hpp"

namespace gpupool_torch {

using c10::DeviceIndex;

#if GPUPOOL_PYTORCH >= 214
using Before214 = CUDAAllocator;
#else
class Before214 : public CUDAAllocator {
 public:
  virtual bool supportsUserMetadata() = 0;
  virtual void annotateMemory(const void* ptr, const std::string& words) = 0;
};
#endif

#if GPUPOOL_PYTORCH >= 213
using Before213 = Before214;
#else
class Before213 : public Before214 {
 public:
  virtual void markCaptureBegin(DeviceIndex device) = 0;
  virtual void markCaptureEnd(DeviceIndex device) = 0;
  virtual c10::DataPtr allocateWithAddress(size_t size, void* address) = 0;
};
#endif

#if GPUPOOL_PYTORCH >= 212
using Before212 = Before213;
#else
class Before212 : public Before213 {
 public:
  virtual std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* ptr) = 0;
  virtual void attachOomRejectionObserver(OomRejectionObserver observer) = 0;
};
#endif

#if GPUPOOL_PYTORCH >= 211
using Before211 = Before212;
#else
class Before211 : public Before212 {
 public:
  virtual SnapshotInfo snapshot(MempoolId_t id, bool include_traces) = 0;
  virtual void createOrIncrefPool(DeviceIndex device, MempoolId_t id,
                                  std::shared_ptr<CUDAAllocator> allocator) = 0;
  virtual void setUseOnOOM(DeviceIndex device, MempoolId_t id, bool use_on_oom) = 0;
  virtual void recordHistory(bool enabled, CreateContextFn context, size_t capacity, RecordContext when,
                             bool clear, const std::vector<std::string>& skipped) = 0;

#if GPUPOOL_PYTORCH >= 208
  SnapshotInfo snapshot(MempoolId_t id) final {
    return snapshot(id, true);
  }
  void recordHistory(bool enabled, CreateContextFn context, size_t capacity, RecordContext when,
                     bool clear) final {
    recordHistory(enabled, context, capacity, when, clear, {});
  }
  /// Who makes the pool keeps its allocator alive.
  void createOrIncrefPool(DeviceIndex device, MempoolId_t id, CUDAAllocator* allocator) final {
    createOrIncrefPool(device, id, std::shared_ptr<CUDAAllocator>(allocator, [](CUDAAllocator*) {}));
  }
  void setUseOnOOM(DeviceIndex device, MempoolId_t id) final {
    setUseOnOOM(device, id, true);
  }
#endif
};
#endif

#if GPUPOOL_PYTORCH >= 210
using Before210 = Before211;
#else
class Before210 : public Before211 {
 public:
  virtual std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) = 0;
  virtual void setNoSplit(DeviceIndex device, MempoolId_t id) = 0;
  virtual void setUserMetadata(const std::string& words) = 0;
  virtual std::string getUserMetadata() = 0;

  /// Bytes that are free on the device, and all that it has.
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) {
    const c10::cuda::CUDAGuard guard(device);
    std::pair<size_t, size_t> info;
    C10_CUDA_CHECK(cudaMemGetInfo(&info.first, &info.second));
    return info;
  }
};
#endif

#if GPUPOOL_PYTORCH >= 208
using Older = Before210;
#else
class Older : public Before210 {
 public:
  virtual void emptyCache(MempoolId_t id) = 0;
  virtual void pushCompileContext(std::string& name) = 0;
  virtual void popCompileContext() = 0;

  using Before210::recordHistory;
  using Before210::snapshot;
  void emptyCache() final { emptyCache(MempoolId_t{0, 0}); }
  SnapshotInfo snapshot() final { return snapshot(MempoolId_t{0, 0}, true); }
  void recordHistory(bool enabled, CreateContextFn context, size_t capacity, RecordContext when) final {
    recordHistory(enabled, context, capacity, when, false, {});
  }
  void ensureExistsAndIncrefPool(DeviceIndex device, MempoolId_t id) final {
    createOrIncrefPool(device, id, nullptr);
  }
};
#endif

}  // namespace gpupool_torch
