// SPDX-License-Identifier: Apache-2.0
// A program with PyTorch in it: gpupool installed as its allocator, two devices, streams.
#pragma once

#include <gpupool/gpupool.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "fake_cuda/fake_cuda.hpp"
#include "pytorch/controls.hpp"

extern "C" int gpupool_torch_install();

constexpr size_t kMiB = size_t{1} << 20;

/// The stand-in driver, before anything asks for one.
inline const bool has_driver =
    setenv("GPUPOOL_LIBCUDA", FAKE_CUDA_LIBRARY, 1) == 0 && setenv("GPUPOOL_BACKEND", "cuda", 1) == 0;

class PyTorch : public testing::Test {
 protected:
  using Allocator = c10::cuda::CUDACachingAllocator::CUDAAllocator;
  using Action = c10::CachingDeviceAllocator::TraceEntry::Action;
  using TraceEntry = c10::CachingDeviceAllocator::TraceEntry;
  using SegmentInfo = c10::CachingDeviceAllocator::SegmentInfo;
  using Context = c10::CachingDeviceAllocator::RecordContext;
  using Id = c10::MempoolId_t;

  void SetUp() override {
    ASSERT_EQ(gpupool_torch_install(), 0);
    torch = c10::cuda::CUDACachingAllocator::allocator.load();
    torch->init(2);
    main = new_stream(0);
    side = new_stream(0);
    stand_in::set_current_stream(main);
  }

  static cudaStream_t new_stream(int device) {
    gpupool_t* pool = nullptr;
    gpupool_stream_t stream = 0;
    EXPECT_EQ(gpupool_default_pool(device, &pool), GPUPOOL_SUCCESS);
    EXPECT_EQ(gpupool_stream_create(pool, &stream), GPUPOOL_SUCCESS);
    return reinterpret_cast<cudaStream_t>(stream);
  }

  static uintptr_t number(cudaStream_t stream) { return reinterpret_cast<uintptr_t>(stream); }

  void begin(Id id, cudaStream_t only = nullptr) {
    torch->beginAllocateToPool(0, id,
                               [only](cudaStream_t stream) { return only == nullptr || stream == only; });
  }

  /// Whether a stream of this device can write there.
  static bool is_usable(int device, void* ptr, size_t size, cudaStream_t stream) {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
    return cudaMemcpyAsync(ptr, ptr, size, cudaMemcpyDeviceToDevice, stream) == cudaSuccess;
  }

  int64_t reserved(int device = 0) {
    return torch->getDeviceStats(static_cast<c10::DeviceIndex>(device)).reserved_bytes[0].current;
  }
  int64_t allocated() { return torch->getDeviceStats(0).allocated_bytes[0].current; }

  void record_history(Context when = Context::ALL) {
    torch->recordHistory(true, when == Context::NEVER ? nullptr : &here, 1000, when, false, {});
  }

  std::vector<TraceEntry> trace() { return torch->snapshot().device_traces.at(0); }

  std::vector<Action> actions() {
    std::vector<Action> all;
    for (const TraceEntry& each : trace()) all.push_back(each.action_);
    return all;
  }

  struct Stack : c10::GatheredContext {
    std::string where;
  };
  /// Where the program is, for the history.
  static inline std::string where;
  static std::shared_ptr<c10::GatheredContext> here() {
    auto stack = std::make_shared<Stack>();
    stack->where = where;
    return stack;
  }
  static std::string text(const std::shared_ptr<c10::GatheredContext>& stack) {
    return stack != nullptr ? static_cast<const Stack&>(*stack).where : "";
  }

  Allocator* torch = nullptr;
  cudaStream_t main = nullptr;
  cudaStream_t side = nullptr;
};
