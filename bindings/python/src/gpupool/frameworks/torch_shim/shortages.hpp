// SPDX-License-Identifier: Apache-2.0
// A shortage that nothing could help. It tells whoever wants to know, and then throws.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "history.hpp"
#include "statistics.hpp"

namespace gpupool_torch {

class Shortages {
 public:
  using Observer = c10::cuda::CUDACachingAllocator::OutOfMemoryObserver;

  Shortages(History& history, Statistics& statistics) : history_(history), statistics_(statistics) {}

  void add_observer(Observer observer) {
    const std::lock_guard lock(mutex_);
    observers_.push_back(std::move(observer));
  }

  void add_rejection_observer(OomRejectionObserver observer) {
    const std::lock_guard lock(mutex_);
    rejection_observers_.push_back(std::move(observer));
  }

  /// For throw_on_cudamalloc_oom: a malloc over the limit is refused before anything is freed for it.
  [[noreturn]] void reject(size_t size, DeviceIndex device, size_t total, const char* text) {
    statistics_.note_rejection(device);
    const auto allocated = static_cast<size_t>(statistics_.of(device).allocated_bytes[0].current);
    std::vector<OomRejectionObserver> observers;
    {
      const std::lock_guard lock(mutex_);
      observers = rejection_observers_;
    }
    for (const OomRejectionObserver& observer : observers) observer(device, size, allocated, total);
    TORCH_CHECK_WITH(OutOfMemoryError, false, text);
  }

  /// free and total: bytes of the device.
  [[noreturn]] void raise(size_t size, DeviceIndex device, size_t free, size_t total, const char* text) {
    statistics_.note_shortage(device);
    history_.record(TraceEntry::OOM, {device, free, size, nullptr}, ActingStack::of_thread());
    const DeviceStats stats = statistics_.of(device);
    c10::reportOutOfMemoryToProfiler(
        static_cast<int64_t>(size), static_cast<size_t>(stats.allocated_bytes[0].current),
        static_cast<size_t>(stats.reserved_bytes[0].current), c10::Device(c10::DeviceType::CUDA, device));
    std::vector<Observer> observers;
    {
      const std::lock_guard lock(mutex_);
      observers = observers_;
    }
    for (const Observer& observer : observers) observer(device, size, total, free);
    TORCH_CHECK_WITH(OutOfMemoryError, false, text);
  }

 private:
  History& history_;
  Statistics& statistics_;
  std::mutex mutex_;
  std::vector<Observer> observers_;
  std::vector<OomRejectionObserver> rejection_observers_;
};

}  // namespace gpupool_torch
