// SPDX-License-Identifier: Apache-2.0
// What torch.cuda.memory._record_memory_history asks for: the last events of each device.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace gpupool_torch {

using c10::CachingDeviceAllocator::CreateContextFn;
using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::TraceEntry;

class History {
 public:
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }

  void configure(bool enabled, CreateContextFn context, size_t capacity, RecordContext when, bool clear,
                 const std::vector<std::string>& skipped) {
    const std::lock_guard lock(mutex_);
    capacity_ = std::max<size_t>(capacity, 1);
    context_ = when != RecordContext::NEVER ? context : nullptr;
    when_ = when;
    skipped_.clear();
    for (const std::string& name : skipped)
      skipped_.push_back(c10::CachingDeviceAllocator::parseTraceEntryAction(name));
    if (!enabled || clear) rings_.clear();
    is_on_.store(enabled, std::memory_order_relaxed);
  }

  /// Gathers the stack before taking the lock, since it may need Python's.
  void record(TraceEntry::Action action, c10::DeviceIndex device, size_t address, size_t size, void* stream) {
    if (!is_on()) return;
    std::shared_ptr<c10::GatheredContext> stack;
    const bool is_free = action == TraceEntry::FREE_REQUESTED || action == TraceEntry::FREE_COMPLETED;
    if (context_ != nullptr && when_ >= (is_free ? RecordContext::ALL : RecordContext::ALLOC))
      stack = context_();
    const std::lock_guard lock(mutex_);
    if (std::find(skipped_.begin(), skipped_.end(), action) != skipped_.end()) return;
    if (rings_.size() <= static_cast<size_t>(device)) rings_.resize(static_cast<size_t>(device) + 1);
    Ring& ring = rings_[static_cast<size_t>(device)];
    TraceEntry entry(action, device, address, size, stream, {0, 0}, c10::getApproximateTime(),
                     std::move(stack));
    if (ring.entries.size() < capacity_) {
      ring.entries.push_back(std::move(entry));
    } else {
      ring.entries[ring.oldest] = std::move(entry);
      ring.oldest = (ring.oldest + 1) % ring.entries.size();
    }
  }

  /// By device, the oldest event first.
  std::vector<std::vector<TraceEntry>> entries() {
    std::vector<std::vector<TraceEntry>> all;
    const auto to_time = clock_.makeConverter();
    const std::lock_guard lock(mutex_);
    for (const Ring& ring : rings_) {
      all.emplace_back(ring.entries);
      std::rotate(all.back().begin(), all.back().begin() + static_cast<std::ptrdiff_t>(ring.oldest),
                  all.back().end());
      for (TraceEntry& entry : all.back()) entry.time_.t_ = to_time(entry.time_.approx_t_) / 1000;
    }
    return all;
  }

 private:
  struct Ring {
    std::vector<TraceEntry> entries;
    size_t oldest = 0;
  };

  std::atomic<bool> is_on_{false};
  std::atomic<CreateContextFn> context_{nullptr};
  std::atomic<RecordContext> when_{RecordContext::NEVER};
  c10::ApproximateClockToUnixTimeConverter clock_;
  std::mutex mutex_;
  size_t capacity_ = 1;
  std::vector<TraceEntry::Action> skipped_;
  std::vector<Ring> rings_;
};

}  // namespace gpupool_torch
