// SPDX-License-Identifier: Apache-2.0
// The history that torch.cuda.memory._record_memory_history asks for: the last events of each device, with
// stacks and whatever the program says of them. And the trackers that hear of each event at once (NCCL's
// registration).
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "pytorch.hpp"

namespace gpupool_torch {

/// Where the program was.
using Stack = std::shared_ptr<c10::GatheredContext>;

/// Names the stack of this thread's current action, for events that it meets on the way.
class ActingStack {
 public:
  explicit ActingStack(Stack stack) : before_(std::exchange(of_thread(), std::move(stack))) {}
  ~ActingStack() { of_thread() = std::move(before_); }
  ActingStack(const ActingStack&) = delete;
  ActingStack& operator=(const ActingStack&) = delete;

  static Stack& of_thread() {
    static thread_local Stack stack;
    return stack;
  }

 private:
  Stack before_;
};

/// Keeps the last entries, as many as there is room for.
template <typename Entry>
class Ring {
 public:
  void push(Entry entry, size_t capacity) {
    if (entries_.size() < capacity) return entries_.push_back(std::move(entry));
    if (oldest_ >= entries_.size()) oldest_ = 0;
    entries_[oldest_++] = std::move(entry);
  }

  void limit(size_t capacity) {
    if (entries_.size() <= capacity) return;
    entries_ = in_order();
    entries_.erase(entries_.begin(), entries_.end() - static_cast<std::ptrdiff_t>(capacity));
    oldest_ = 0;
  }

  /// The oldest first.
  std::vector<Entry> in_order() const {
    std::vector<Entry> all = entries_;
    if (oldest_ < all.size())
      std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(oldest_), all.end());
    return all;
  }

 private:
  std::vector<Entry> entries_;
  size_t oldest_ = 0;
};

class History {
 public:
  /// What an event is about.
  struct Subject {
    c10::DeviceIndex device;
    size_t address;
    size_t size;
    void* stream;
    MempoolId_t pool{0, 0};
  };

  /// Whether events are kept.
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  /// Whether anybody wants to hear of events.
  bool is_watched() const { return is_on() || has_trackers_.load(std::memory_order_relaxed); }

  void configure(bool enabled, CreateContextFn context, size_t capacity, RecordContext when, bool clear,
                 const std::vector<std::string>& skipped) {
    TORCH_CHECK(when == RecordContext::NEVER || context != nullptr,
                "gpupool: stacks are wanted of no recorder");
    std::vector<TraceEntry::Action> actions = actions_of(skipped);
    const std::lock_guard lock(mutex_);
    capacity_ = std::max<size_t>(capacity, 1);
    context_ = enabled ? context : nullptr;
    when_ = enabled ? when : RecordContext::NEVER;
    skipped_ = std::move(actions);
    if (!enabled || clear) {
      rings_.clear();
      annotations_ = {};
    }
    for (auto& ring : rings_) ring.limit(capacity_);
    annotations_.limit(capacity_);
    is_on_.store(enabled, std::memory_order_relaxed);
  }

  void add_tracker(AllocatorTraceTracker tracker) {
    const std::lock_guard lock(mutex_);
    trackers_.push_back(std::move(tracker));
    has_trackers_.store(true, std::memory_order_relaxed);
  }

  /// The stack, if the history keeps stacks of this level. The caller must hold no lock, because this may
  /// need Python's.
  Stack gather(RecordContext level) const {
    if (C10_LIKELY(when_.load(std::memory_order_relaxed) < level)) return nullptr;
    const CreateContextFn create = context_.load();
    return create != nullptr ? create() : nullptr;
  }

  void record(TraceEntry::Action action, const Subject& subject, Stack stack) {
    if (C10_LIKELY(!is_watched())) return;
    record(action, subject, std::move(stack), of_thread().metadata);
  }

  /// As record, with what the user says of this event.
  void record(TraceEntry::Action action, const Subject& subject, Stack stack, std::string words) {
    if (!is_watched()) return;
    const TraceEntry entry =
        make_entry(action, subject.device, subject.address, subject.size, subject.stream, subject.pool,
                   c10::getApproximateTime(), when_ >= RecordContext::ALLOC ? std::move(stack) : nullptr,
                   of_thread().regions.empty() ? "N/A" : of_thread().regions.back(), std::move(words));
    std::vector<AllocatorTraceTracker> trackers;
    {
      const std::lock_guard lock(mutex_);
      trackers = trackers_;
      if (is_on() && std::find(skipped_.begin(), skipped_.end(), action) == skipped_.end()) {
        const auto device = static_cast<size_t>(subject.device);
        if (rings_.size() <= device) rings_.resize(device + 1);
        rings_[device].push(entry, capacity_);
      }
    }
    for (const AllocatorTraceTracker& tracker : trackers) tracker(entry);
  }

  void annotate(c10::DeviceIndex device, const std::vector<std::pair<std::string, std::string>>& words) {
    if (!is_on()) return;
    AnnotationEntry entry(device, c10::getApproximateTime());
    for (const auto& [name, value] : words) entry.recordUserMetadata(name, value);
    const std::lock_guard lock(mutex_);
    annotations_.push(std::move(entry), capacity_);
  }

  // What this thread says of all its events: the compiled regions that it is in, and the user's own text.
  void push_region(const std::string& name) {
    if (is_on()) of_thread().regions.push_back(name);
  }
  void pop_region() {
    if (is_on() && !of_thread().regions.empty()) of_thread().regions.pop_back();
  }
  static std::string& metadata() { return of_thread().metadata; }

  /// By device, the oldest event first.
  std::vector<std::vector<TraceEntry>> entries() {
    std::vector<std::vector<TraceEntry>> all;
    const std::lock_guard lock(mutex_);
    for (const auto& ring : rings_) all.push_back(with_time(ring.in_order()));
    return all;
  }

  std::vector<AnnotationEntry> annotations() {
    const std::lock_guard lock(mutex_);
    return with_time(annotations_.in_order());
  }

 private:
  struct OfThread {
    std::vector<std::string> regions;
    std::string metadata;
  };

  static OfThread& of_thread() {
    static thread_local OfThread words;
    return words;
  }

  /// Replaces the clock's own count by microseconds since 1970.
  template <typename Entry>
  std::vector<Entry> with_time(std::vector<Entry> entries) {
    const auto to_time = clock_.makeConverter();
    for (Entry& entry : entries) entry.time_.t_ = to_time(entry.time_.approx_t_) / 1000;
    return entries;
  }

  std::atomic<bool> is_on_{false};
  std::atomic<bool> has_trackers_{false};
  std::atomic<CreateContextFn> context_{nullptr};
  std::atomic<RecordContext> when_{RecordContext::NEVER};
  c10::ApproximateClockToUnixTimeConverter clock_;
  std::mutex mutex_;
  size_t capacity_ = 1;
  std::vector<TraceEntry::Action> skipped_;
  std::vector<Ring<TraceEntry>> rings_;
  Ring<AnnotationEntry> annotations_;
  std::vector<AllocatorTraceTracker> trackers_;
};

}  // namespace gpupool_torch
