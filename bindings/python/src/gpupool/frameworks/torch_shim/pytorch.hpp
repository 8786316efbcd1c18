// SPDX-License-Identifier: Apache-2.0
// What PyTorch's releases, from 2.6 on, name or build differently, under the names of the newest. The virtual
// functions that differ are in older.hpp.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else
#include <torch/csrc/api/include/torch/version.h>
#endif

#include <memory>
#include <string>
#include <utility>
#include <vector>

/// 2.11 is 211.
#define GPUPOOL_PYTORCH (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR)

#if GPUPOOL_PYTORCH < 206
#error "gpupool serves PyTorch 2.6 and later"
#endif

namespace gpupool_torch {

using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::Stat;
using c10::CachingDeviceAllocator::StatArray;
using c10::CachingDeviceAllocator::StatType;
using c10::cuda::CUDACachingAllocator::AllocatorState;
using c10::cuda::CUDACachingAllocator::CheckpointDelta;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig;
using c10::cuda::CUDACachingAllocator::OutOfMemoryObserver;
using c10::cuda::CUDACachingAllocator::ShareableHandle;
using c10::cuda::CUDACachingAllocator::SnapshotInfo;

#if GPUPOOL_PYTORCH >= 209
using c10::MempoolId_t;
#else
using c10::cuda::MempoolId_t;
#endif

#if GPUPOOL_PYTORCH >= 211
namespace records = c10::CachingDeviceAllocator;
#else
namespace records = c10::cuda::CUDACachingAllocator;
#endif
using records::AllocatorTraceTracker;
using records::AnnotationEntry;
using records::BlockInfo;
using records::CreateContextFn;
using records::RecordContext;
using records::SegmentInfo;
using records::TraceEntry;

#if GPUPOOL_PYTORCH >= 210
using c10::cuda::CUDACachingAllocator::StreamSegmentSize;
#else
struct StreamSegmentSize {
  StreamSegmentSize(cudaStream_t, bool, size_t) {}
};
#endif

#if GPUPOOL_PYTORCH >= 212
using c10::cuda::CUDACachingAllocator::OomRejectionObserver;
#else
using OomRejectionObserver = std::function<void(int64_t, size_t, size_t, size_t)>;
#endif

/// An entry of the history. What a release has no place for is left out.
inline TraceEntry make_entry(TraceEntry::Action action, c10::DeviceIndex device, size_t address, size_t size,
                             void* stream, [[maybe_unused]] MempoolId_t pool, c10::approx_time_t time,
                             std::shared_ptr<c10::GatheredContext> stack, [[maybe_unused]] std::string region,
                             [[maybe_unused]] std::string metadata) {
  const auto of = static_cast<decltype(std::declval<TraceEntry>().stream_)>(stream);
#if GPUPOOL_PYTORCH >= 210
  return {action,
          device,
          address,
          size,
          of,
          pool,
          time,
          std::move(stack),
          std::move(region),
          std::move(metadata)};
#elif GPUPOOL_PYTORCH >= 208
  return {action, device, address, size, of, pool, time, std::move(stack), std::move(region)};
#else
  return {action, device, address, size, of, time, std::move(stack)};
#endif
}

/// The actions of these names, which the history is to leave out.
inline std::vector<TraceEntry::Action> actions_of([[maybe_unused]] const std::vector<std::string>& names) {
  std::vector<TraceEntry::Action> actions;
#if GPUPOOL_PYTORCH >= 211
  for (const std::string& name : names)
    actions.push_back(c10::CachingDeviceAllocator::parseTraceEntryAction(name));
#endif
  return actions;
}

/// Those settings of PYTORCH_ALLOC_CONF that every allocator of PyTorch's has to do with.
struct Settings {
  std::string text;
  double memory_fraction = 1;
  size_t max_split_size = 0;
  double garbage_collection_threshold = 0;
  std::vector<size_t> roundup_power2_divisions;
  bool expandable_segments = false;
  bool throws_early = false;  // throw_on_cudamalloc_oom
};

inline Settings settings_in_force() {
  Settings all;
#if GPUPOOL_PYTORCH >= 210
  using Common = c10::CachingAllocator::AcceleratorAllocatorConfig;
  all.text = c10::CachingAllocator::getAllocatorSettings();
  all.expandable_segments = Common::use_expandable_segments();
  all.memory_fraction = CUDAAllocatorConfig::per_process_memory_fraction();
#else
  using Common = CUDAAllocatorConfig;
  all.text = Common::last_allocator_settings();
  all.expandable_segments = Common::expandable_segments();
#endif
  all.max_split_size = Common::max_split_size();
  all.garbage_collection_threshold = Common::garbage_collection_threshold();
  all.roundup_power2_divisions = Common::roundup_power2_divisions();
#if GPUPOOL_PYTORCH >= 212
  all.throws_early = CUDAAllocatorConfig::throw_on_cudamalloc_oom();
#endif
  return all;
}

}  // namespace gpupool_torch
