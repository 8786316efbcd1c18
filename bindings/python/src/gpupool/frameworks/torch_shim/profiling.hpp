// SPDX-License-Identifier: Apache-2.0
// What PyTorch's profiler and its tracers of GPU calls hear.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/impl/GPUTrace.h>

#include "statistics.hpp"

namespace gpupool_torch {

inline void trace_allocation(void* ptr) {
  if (const auto* trace = c10::impl::GPUTrace::get_trace())
    (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
}

inline void trace_free(void* ptr) {
  if (const auto* trace = c10::impl::GPUTrace::get_trace())
    (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
}

/// change: bytes, negative for a free.
inline void profile(void* ptr, int64_t change, DeviceIndex device, Statistics& statistics) {
  if (C10_LIKELY(!c10::memoryProfilingEnabled())) return;
  const DeviceStats stats = statistics.of(device);
  c10::reportMemoryUsageToProfiler(ptr, change, static_cast<size_t>(stats.allocated_bytes[0].current),
                                   static_cast<size_t>(stats.reserved_bytes[0].current),
                                   c10::Device(c10::DeviceType::CUDA, device));
}

}  // namespace gpupool_torch
