// SPDX-License-Identifier: Apache-2.0
// What sleep and wake share: the plan of what moves, copies over two streams, and a sleeping pool's end.
#include <algorithm>
#include <cinttypes>
#include <utility>

#include "base/defer.hpp"
#include "base/log.hpp"
#include "pool/pool.hpp"
#include "pool/sleep_parts.hpp"

namespace gpupool::internal {
namespace {

/// Bytes that are copied, unmapped or mapped together: large enough to be worth an event, small enough that
/// the driver works on one batch while the next is copied.
constexpr uint64_t kBatch = 64 * kMiB;

}  // namespace

/// Adds a chunk to the batch of its neighbours. A chunk that backs nothing is a batch of its own.
void Sleeper::add_chunk(Plan& plan, Chunk* chunk) {
  Batch* last = plan.batches.empty() ? nullptr : &plan.batches.back();
  const bool joins = last != nullptr && chunk->address != 0 && last->start + last->size == chunk->address &&
                     last->size + chunk->size <= kBatch && plan.entries.back().chunk->region == chunk->region;
  if (!joins) {
    plan.batches.push_back({chunk->address, 0, plan.entries.size(), 0, 0});
    last = &plan.batches.back();
  }
  plan.entries.push_back({chunk});
  if (chunk->address != 0) last->size += chunk->size;
  ++last->count;
  if (chunk->handle == 0) plan.missing += chunk->size;
}

/// Adds a live block to what is saved. It joins the run before it if at most `most_gap` bytes of hole are
/// between them, since a copy of its own would cost more than copying these.
void Sleeper::add_run(Plan& plan, const Range& range, uint64_t most_gap) {
  plan.saved += range.size;
  if (!plan.runs.empty()) {
    Run& last = plan.runs.back();
    const Address end = last.address + last.size;
    const Range* before = range.prev;
    if (before != nullptr && before->is(State::hole) && before->size <= most_gap) before = before->prev;
    if (before != nullptr && before->end() == end && before->address >= last.address) {
      plan.backup_bytes += range.end() - end;
      last.size = range.end() - last.address;
      return;
    }
  }
  plan.runs.push_back({range.address, range.size, plan.backup_bytes});
  plan.backup_bytes += range.size;
}

const Sleeper::Run* Sleeper::find_saved(Address address) const noexcept {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), address,
                                      [](Address at, const Run& each) { return at < each.address; });
  if (after == runs_.begin()) return nullptr;
  const Run& run = *std::prev(after);
  return address - run.address < run.size ? &run : nullptr;
}

/// Gives a plan's runs their places in the backup: in the first room between what is saved, or behind it.
void Sleeper::place(Plan& plan) const {
  if (runs_.empty() || plan.runs.empty()) return;
  std::vector<Run> taken = runs_;
  std::sort(taken.begin(), taken.end(), [](const Run& a, const Run& b) { return a.offset < b.offset; });
  uint64_t room = 0;
  for (const Run& run : taken) {
    if (run.offset >= room + plan.backup_bytes) break;
    room = run.offset + run.size;
  }
  for (Run& run : plan.runs) run.offset += room;
}

/// How large the backup must be for the plan.
uint64_t Sleeper::backup_end(const Plan& plan) const noexcept {
  uint64_t end = saved_end_;
  for (const Run& run : plan.runs) end = std::max(end, run.offset + run.size);
  return end;
}

/// Gets the host's memory, and the streams, for what the plan saves.
Status Sleeper::prepare_copies(Lock& lock, const Plan& plan) {
  if (plan.backup_bytes == 0) return kSuccess;
  const Status status = backup_.reserve(lock, backup_end(plan));
  return status == kSuccess ? open_streams() : status;
}

/// Makes add_saved() safe for so many runs. Throws std::bad_alloc.
void Sleeper::reserve_saved(size_t count) {
  runs_.reserve(runs_.size() + count);
}

void Sleeper::add_saved(const std::vector<Run>& runs) noexcept {
  runs_.insert(runs_.end(), runs.begin(), runs.end());
  std::sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.address < b.address; });
  find_saved_end();
}

void Sleeper::find_saved_end() noexcept {
  saved_end_ = 0;
  for (const Run& run : runs_) saved_end_ = std::max(saved_end_, run.offset + run.size);
}

/// Forgets what was saved of memory that is awake, or whose addresses are bare.
void Sleeper::forget_saved() noexcept {
  std::erase_if(runs_, [&](const Run& run) {
    const Range* block = pool_.space_.map.find_at_or_before(run.address);
    if (block == nullptr || run.address >= block->end()) return true;
    const Region& region = *block->region;
    const Chunk* chunk = region.chunk_at(region.page_of(run.address));
    return chunk == nullptr || !chunk->asleep;
  });
  find_saved_end();
}

/// Forgets what was saved of these addresses.
void Sleeper::forget_saved(Address start, Address end) noexcept {
  std::erase_if(runs_, [&](const Run& run) { return run.address >= start && run.address < end; });
  find_saved_end();
}

/// Opens the two streams of the pool's own copies: one copies while the other's batch is unmapped or mapped.
Status Sleeper::open_streams() {
  if (has_streams_) return kSuccess;
  if (const Status status = device_.create_stream(streams_[0]); status != kSuccess) return status;
  if (const Status status = device_.create_stream(streams_[1]); status != kSuccess) {
    const ErrorRecord cause = last_error();
    (void)device_.destroy_stream(streams_[0]);
    last_error() = cause;
    return status;
  }
  has_streams_ = true;
  return kSuccess;
}

/// Queues the copies of a batch, and an event behind them if there are any. Call it with no lock held.
Status Sleeper::copy_batch(const Plan& plan, Batch& batch, size_t lane, bool to_host) {
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
  return status == kSuccess && any ? device_.record(stream, batch.event) : status;
}

/// Waits for the copies of a batch, with the lock given up.
Status Sleeper::wait_for_batch(Lock& lock, Batch& batch) {
  if (batch.event == 0) return kSuccess;
  Status status = kSuccess;
  {
    lock.unlock();
    const Defer relock([&] { lock.lock(); });
    status = device_.synchronize(batch.event);
  }
  if (status == kSuccess) device_.recycle(std::exchange(batch.event, 0));
  return status;
}

/// After a failure: waits for the copies that were queued. If the driver refuses even that, the backup stays
/// until a later wait succeeds, since a copy may still be under way to it.
void Sleeper::abandon_copies(Lock& lock, Plan& plan) noexcept {
  const ErrorRecord cause = last_error();
  wait_for_copies(lock);
  for (Batch& batch : plan.batches) {
    if (batch.event != 0) device_.recycle(std::exchange(batch.event, 0));
  }
  last_error() = cause;
}

void Sleeper::wait_for_copies(Lock& lock) noexcept {
  if (!has_streams_) return;
  bool settled = true;
  {
    lock.unlock();
    const Defer relock([&] { lock.lock(); });
    for (const Stream stream : streams_) settled = device_.synchronize_stream(stream) == kSuccess && settled;
  }
  copies_pending_ = !settled;
}

/// Releases the memory of an unmapped chunk. If the driver refuses, or an old mapping of it could not be
/// undone, the chunk keeps its memory, counted as before.
void Sleeper::release_chunk(Chunk& chunk) noexcept {
  if (chunk.old_unmapped != chunk.old_mappings) return;
  const ErrorRecord before = last_error();
  if (device_.release_chunk(chunk.handle) != kSuccess) {
    last_error() = before;
    return;
  }
  chunk.handle = 0;
  if (chunk.heap != nullptr) {
    pool_.ledger_.detached(chunk.heap->group(), chunk.size);
    pool_.narrator_.unmapped(*static_cast<StreamHeap*>(chunk.heap), chunk.address, chunk.size);
  }
  pool_.ledger_.released(chunk.size);
  asleep_bytes_ += chunk.size;
}

void Sleeper::release_backup(Lock& lock, uint64_t keep) noexcept {
  const ErrorRecord before = last_error();
  if (copies_pending_) wait_for_copies(lock);
  if (!copies_pending_) (void)backup_.shrink(lock, std::max(keep, saved_end_));
  last_error() = before;
}

/// Releases what is asleep without waking it, except chunks that a block touches: a block that waits for a
/// capturing stream keeps its addresses.
void Sleeper::end(Lock& lock) noexcept {
  if (!is_awake()) {
    if (copies_pending_) wait_for_copies(lock);
    (void)pool_.way_back_.wait_for_streams(lock, "sleep");
    pool_.way_back_.settle_all_pending(lock);
    pool_.backing_.forget_old_if([](const OldMapping& old) {
      if (!old.unmapped) return false;
      --old.chunk->old_unmapped;
      --old.chunk->old_mappings;
      return true;
    });
    for (Region& region : pool_.space_.regions) end_region(region);
    pool_.backing_.for_each_in_hand([&](Chunk* chunk) {
      if (!chunk->asleep || chunk->old_mappings != 0) return;
      pool_.backing_.take_from_hand(chunk);
      end_chunk(chunk);
    });
    away_ = 0;
    become_awake();
    changed_.notify_all();
  }
  runs_.clear();
  find_saved_end();
  release_backup(lock, 0);
  if (!has_streams_) return;
  has_streams_ = false;
  for (const Stream stream : streams_) (void)device_.destroy_stream(stream);
}

void Sleeper::end_region(Region& region) noexcept {
  for (size_t page = 0; page < region.pages.size();) {
    Chunk* chunk = region.pages[page];
    const size_t next = chunk != nullptr ? region.page_of(chunk->end()) : page + 1;
    if (chunk != nullptr && chunk->asleep && chunk->users == 0 && chunk->old_mappings == 0 &&
        (chunk->unmapped || device_.unmap(chunk->address, chunk->size) == kSuccess)) {
      std::fill(region.pages.begin() + static_cast<ptrdiff_t>(page),
                region.pages.begin() + static_cast<ptrdiff_t>(next), nullptr);
      chunk->heap->claim_chunk(chunk);
      if (chunk->handle != 0) {
        auto& heap = *static_cast<StreamHeap*>(chunk->heap);
        pool_.ledger_.detached(heap.group(), chunk->size);
        pool_.narrator_.unmapped(heap, chunk->address, chunk->size);
      }
      chunk->heap = nullptr;
      end_chunk(chunk);
    }
    page = next;
  }
  device_.raw().name_asleep(region.base, region.size, nullptr);
}

/// Ends an unmapped chunk that is in no list, and releases its memory if it still has any.
void Sleeper::end_chunk(Chunk* chunk) noexcept {
  if (chunk->alone) --alone_chunks_;
  chunk->asleep = chunk->unmapped = chunk->alone = false;
  if (chunk->handle != 0) {
    chunk->address = 0;
    (void)pool_.backing_.release(chunk);
    return;
  }
  asleep_bytes_ -= chunk->size;
  pool_.space_.chunks.recycle(chunk);
}

}  // namespace gpupool::internal
