// SPDX-License-Identifier: Apache-2.0
#include "pool/sleep/saved_bytes.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "pool/rules/metered_device.hpp"

namespace gpupool::internal {

const SavedRun* SavedBytes::find(Address address) const noexcept {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), address,
                                      [](Address at, const SavedRun& each) { return at < each.address; });
  if (after == runs_.begin()) return nullptr;
  const SavedRun& run = *std::prev(after);
  return address - run.address < run.size ? &run : nullptr;
}

void SavedBytes::place(SleepPlan& plan) const {
  if (runs_.empty() || plan.runs.empty()) return;
  std::vector<SavedRun> taken = runs_;
  std::sort(taken.begin(), taken.end(),
            [](const SavedRun& a, const SavedRun& b) { return a.offset < b.offset; });
  uint64_t room = 0;
  for (const SavedRun& run : taken) {
    if (run.offset >= room + plan.backup_bytes) break;
    room = run.offset + run.size;
  }
  for (SavedRun& run : plan.runs) run.offset += room;
}

uint64_t SavedBytes::end_with(const SleepPlan& plan) const noexcept {
  uint64_t end = end_;
  for (const SavedRun& run : plan.runs) end = std::max(end, run.offset + run.size);
  return end;
}

Status SavedBytes::prepare(PoolLock& lock, const SleepPlan& plan) {
  if (plan.backup_bytes == 0) return kSuccess;
  const Status status = backup_.reserve(lock, end_with(plan));
  return status == kSuccess ? open_streams() : status;
}

void SavedBytes::reserve(size_t count) {
  runs_.reserve(runs_.size() + count);
}

void SavedBytes::add(const std::vector<SavedRun>& runs) noexcept {
  ++saves_;
  runs_.insert(runs_.end(), runs.begin(), runs.end());
  std::sort(runs_.begin(), runs_.end(),
            [](const SavedRun& a, const SavedRun& b) { return a.address < b.address; });
  find_end();
}

void SavedBytes::find_end() noexcept {
  end_ = 0;
  for (const SavedRun& run : runs_) end_ = std::max(end_, run.offset + run.size);
}

void SavedBytes::forget() noexcept {
  std::erase_if(runs_, [&](const SavedRun& run) {
    const Range* block = space_.map.find_at_or_before(run.address);
    if (block == nullptr || run.address >= block->end()) return true;
    const Region& region = *block->region;
    const Chunk* chunk = region.chunk_at(region.page_of(run.address));
    return chunk == nullptr || !chunk->asleep;
  });
  find_end();
}

void SavedBytes::forget(Address start, Address end) noexcept {
  std::erase_if(runs_, [&](const SavedRun& run) { return run.address >= start && run.address < end; });
  find_end();
}

Status SavedBytes::open_streams() {
  if (has_streams_) return kSuccess;
  if (const Status status = device_.create_stream(streams_[0]); status != kSuccess) return status;
  if (const Status status = device_.create_stream(streams_[1]); status != kSuccess) {
    const KeepError keep_error;
    (void)device_.destroy_stream(streams_[0]);
    return status;
  }
  has_streams_ = true;
  return kSuccess;
}

Status SavedBytes::copy_batch(const SleepPlan& plan, SleepPlan::Batch& batch, size_t lane, bool to_host) {
  const Stream stream = streams_[lane % streams_.size()];
  bool any = false;
  const Status status = for_parts(plan.runs, batch, [&](Address address, uint64_t size, uint64_t offset) {
    Status copied = kSuccess;
    while (size != 0 && copied == kSuccess) {
      uint64_t part = 0;
      const Address host = backup_.at(offset, part);
      part = std::min(part, size);
      copied = to_host ? device_.transfer(host, address, part, stream)
                       : device_.transfer(address, host, part, stream);
      address += part;
      offset += part;
      size -= part;
    }
    any = true;
    return copied;
  });
  return status == kSuccess && any ? device_.record(StreamUser::of_own(stream), 0, batch.event) : status;
}

Status SavedBytes::wait_for_batch(PoolLock& lock, SleepPlan::Batch& batch) {
  if (batch.event == 0) return kSuccess;
  const Status status = lock.give_up_for([&] { return device_.synchronize(batch.event); });
  if (status == kSuccess) device_.recycle(std::exchange(batch.event, 0));
  return status;
}

void SavedBytes::abandon(PoolLock& lock, SleepPlan& plan) noexcept {
  const KeepError keep_error;
  const interrupts::Off off;
  wait_for_copies(lock);
  for (SleepPlan::Batch& batch : plan.batches) {
    if (batch.event != 0) device_.recycle(std::exchange(batch.event, 0));
  }
}

void SavedBytes::wait_for_copies(PoolLock& lock) noexcept {
  if (!has_streams_) return;
  bool settled = true;
  lock.give_up_for([&] {
    for (const Stream stream : streams_) settled = device_.synchronize_stream(stream) == kSuccess && settled;
  });
  copies_pending_ = !settled;
}

void SavedBytes::shrink(PoolLock& lock, uint64_t keep) noexcept {
  const KeepError keep_error;
  const interrupts::Off off;
  if (copies_pending_) wait_for_copies(lock);
  if (!copies_pending_) (void)backup_.shrink(lock, std::max(keep, end_));
}

Status SavedBytes::set_kept(PoolLock& lock, uint64_t bytes) {
  const uint64_t in_use = copies_pending_ ? backup_.capacity() : end_;
  const Status status = bytes > backup_.capacity() ? backup_.reserve(lock, bytes)
                                                   : backup_.shrink(lock, std::max(bytes, in_use));
  if (status == kSuccess) kept_ = bytes;
  return status;
}

Status SavedBytes::prepare(PoolLock& lock, uint64_t bytes) {
  const Status status = backup_.reserve(lock, end_ + bytes);
  return status == kSuccess ? open_streams() : status;
}

Status SavedBytes::fill(SleepPlan& plan, int value) {
  for (const SleepPlan::Batch& batch : plan.batches) {
    const Status status = for_parts(plan.dropped_runs, batch, [&](Address address, uint64_t size, uint64_t) {
      return device_.fill_words(address, static_cast<uint8_t>(value) * 0x01010101U, size, streams_[0]);
    });
    if (status != kSuccess) return status;
  }
  return device_.record(StreamUser::of_own(streams_[0]), 0, plan.batches.back().event);
}

void SavedBytes::end(PoolLock& lock) noexcept {
  runs_.clear();
  find_end();
  shrink(lock, 0);
  if (!has_streams_) return;
  has_streams_ = false;
  for (const Stream stream : streams_) (void)device_.destroy_stream(stream);
}

}  // namespace gpupool::internal
