// SPDX-License-Identifier: Apache-2.0
// Waking. The whole need is taken from the limit, and looked for on the device, before the first chunk is
// created; a failure gives back all that was got, and the pool sleeps on with what it had saved.
#include <algorithm>
#include <chrono>
#include <cinttypes>

#include "base/defer.hpp"
#include "pool/pool.hpp"
#include "pool/sleep_parts.hpp"

namespace gpupool::internal {
namespace {

using Clock = std::chrono::steady_clock;

/// How large chunks of large blocks may become: with these, the driver's time is small even beside a drop.
constexpr uint64_t kCoarsest = 128 * kMiB;
/// A block's share of a chunk.
constexpr uint64_t kBlockParts = 16;

/// How long to sleep between two looks for memory that others give back.
constexpr std::chrono::milliseconds kLook{1};

Clock::time_point deadline_after(uint64_t nanoseconds) noexcept {
  constexpr uint64_t kLongest = uint64_t{365} * 24 * 3600 * 1'000'000'000;
  return Clock::now() + std::chrono::nanoseconds(std::min(nanoseconds, kLongest));
}

}  // namespace

/// Everything from asleep to awake. On failure all is asleep as before.
Status Sleeper::raise(Lock& lock, const SleepOptions& options, Result& result) {
  const Clock::time_point deadline = deadline_after(options.timeout_ns);
  for (uint32_t attempt = 0;; ++attempt) {
    drop_freed();
    coarsen();
    Plan plan;
    plan_wake(plan);
    Status status = plan.runs.empty() && options.fill < 0 ? kSuccess : open_streams();
    if (status == kSuccess) status = obtain_room(lock, plan.missing);
    if (status == kSuccess) {
      const uint64_t created = plan.missing;
      status = restore(lock, options, plan);
      if (status == kSuccess) {
        result.created_bytes = created;
        result.saved_bytes = plan.saved;
        result.dropped_bytes = plan.dropped;
        return kSuccess;
      }
    }
    if (!is_shortage(status)) return status;
    if (pool_.ask_handler(lock, plan.missing, attempt + 1)) continue;
    if (Clock::now() >= deadline) return status;
    // Others' sleeps, wakes and destroys are no news to this pool: it has to look.
    changed_.wait_for(lock, kLook);
  }
}

/// Chunks that no block is in any more need no memory: their addresses become bare.
void Sleeper::drop_freed() {
  std::vector<Chunk*> freed;
  for (const Region& region : pool_.space_.regions) {
    for_each_chunk(region, [&](Chunk* chunk) {
      if (chunk->asleep && chunk->unmapped && chunk->users == 0 && chunk->old_mappings == 0 &&
          !pool_.keeps_mappings(static_cast<StreamHeap*>(chunk->heap)->state())) {
        freed.push_back(chunk);
      }
    });
  }
  for (Chunk* chunk : freed) {
    pool_.space_.store.reserve(2);
    if (chunk->handle != 0) release(*chunk);
    if (chunk->handle != 0) continue;
    chunk->heap->claim(chunk);
    Heap::restore(chunk->heap->detach(chunk));
    asleep_bytes_ -= chunk->size;
    --away_;
    delete chunk;
  }
}

/// A large block gets its memory back in larger chunks: the driver is paid by the chunk.
void Sleeper::coarsen() noexcept {
  for (const Region& region : pool_.space_.regions) {
    for (const Range* range = region.first; range != nullptr; range = range->next) {
      if (range->is(State::live) && range->size >= kBlockParts * 2 * kGranule) coarsen(*range);
    }
  }
}

/// Sizes stay powers of two, so that the chunks fit other requests once they are free.
void Sleeper::coarsen(const Range& block) noexcept {
  const Region& region = *block.region;
  const uint64_t own = pool_.options_.max_chunk != 0 ? pool_.options_.max_chunk : kCoarsest;
  const uint64_t most = std::min({floor_power_of_two(block.size / kBlockParts), kCoarsest, own});
  std::array<Chunk*, kCoarsest / kGranule> run{};
  for (Address at = block.address; at < block.end();) {
    size_t count = 0;   // chunks from `at` on that may be one
    size_t merged = 0;  // so many of them make a power of two
    uint64_t size = 0;
    for (Address next = at; next < block.end(); next = run[count - 1]->end()) {
      Chunk* chunk = region.pages[region.page_of(next)];
      const bool is_own = chunk->asleep && chunk->unmapped && chunk->handle == 0 && chunk->users == 1 &&
                          chunk->old_mappings == 0 && chunk->address >= block.address &&
                          chunk->end() <= block.end();
      if (!is_own || size + chunk->size > most) break;
      run[count++] = chunk;
      size += chunk->size;
      if (is_power_of_two(size)) merged = count;
    }
    if (merged > 1) {
      run[0]->heap->merge(run.data(), merged);
      for (size_t i = 1; i < merged; ++i) delete run[i];
      away_ -= merged - 1;
      at = run[0]->end();
    } else {
      at = region.pages[region.page_of(at)]->end();
    }
  }
}

/// What is asleep, and what was saved of it: of the blocks that are still live.
void Sleeper::plan_wake(Plan& plan) const {
  add_chunks(plan, false);
  for (const Region& region : pool_.space_.regions) {
    for (const Range* range = region.first; range != nullptr; range = range->next) {
      if (!range->is(State::live) || !is_asleep(*range)) continue;
      const Run* saved = find_saved(range->address);
      if (saved == nullptr) {
        plan.dropped += range->size;
        continue;
      }
      add_run(plan, *range, 0);
      Run& run = plan.runs.back();
      if (run.address == range->address) run.offset = saved->offset + (range->address - saved->address);
    }
  }
  std::sort(plan.runs.begin(), plan.runs.end(),
            [](const Run& a, const Run& b) { return a.address < b.address; });
}

/// Takes `bytes` from the limit, where the device has them too, after other pools' caches are emptied.
Status Sleeper::obtain_room(Lock& lock, uint64_t bytes) {
  Budget& budget = pool_.ledger_.budget();
  for (bool emptied = false;; emptied = true) {
    if (!budget.take(bytes)) {
      return fail(GPUPOOL_ERROR_OVER_LIMIT,
                  "waking needs %" PRIu64 " bytes, and %" PRIu64 " are left of the limit of %" PRIu64, bytes,
                  budget.room(), budget.limit());
    }
    uint64_t free = 0;
    if (device_.raw().free_memory(free) != kSuccess || free >= bytes) return kSuccess;
    budget.put(bytes);
    if (emptied) {
      return fail(GPUPOOL_ERROR_OUT_OF_MEMORY,
                  "waking needs %" PRIu64 " bytes, and the device has %" PRIu64 " free", bytes, free);
    }
    pool_.empty_other_pools(lock);
  }
}

/// Creates, maps and fills, a batch being copied while the next is mapped.
Status Sleeper::restore(Lock& lock, const SleepOptions& options, Plan& plan) {
  Status status = kSuccess;
  for (size_t i = 0; i < plan.batches.size() && status == kSuccess; ++i) {
    status = bring_back(plan, plan.batches[i]);
    if (status != kSuccess || plan.runs.empty()) continue;
    lock.unlock();
    const Defer relock([&] { lock.lock(); });
    status = transfer(plan, plan.batches[i], i, false);
  }
  if (status == kSuccess) status = map_old();
  if (status == kSuccess && options.fill >= 0) status = fill_dropped(lock, plan, options.fill);
  for (Batch& batch : plan.batches) {
    if (status == kSuccess) status = pass(lock, batch);
  }
  if (status == kSuccess) {
    commit(plan);
    return kSuccess;
  }
  abandon_copies(lock, plan);
  take_away_again(plan);
  return status;
}

Status Sleeper::bring_back(Plan& plan, Batch& batch) {
  for (size_t i = 0; i < batch.count; ++i) {
    Entry& entry = plan.entries[batch.first + i];
    Chunk& chunk = *entry.chunk;
    if (chunk.handle == 0) {
      if (const Status status = device_.create_chunk(chunk.size, chunk.handle); status != kSuccess)
        return status;
      entry.created = true;
      pool_.ledger_.created(chunk.size);
      if (chunk.heap != nullptr) {
        pool_.ledger_.attached(chunk.heap->group(), chunk.size);
        pool_.record_chunk(Happening::map, *static_cast<StreamHeap*>(chunk.heap), chunk.address, chunk.size);
      }
      asleep_bytes_ -= chunk.size;
      plan.missing -= chunk.size;
    }
    if (batch.size == 0 || !chunk.unmapped) continue;
    if (const Status status = device_.map(chunk.address, chunk.size, chunk.handle); status != kSuccess)
      return status;
    entry.mapped = true;
    chunk.unmapped = false;
  }
  return batch.size != 0 ? device_.set_access(batch.start, batch.size) : kSuccess;
}

/// The old mappings that graphs have built in.
Status Sleeper::map_old() {
  for (auto* entries : {&pool_.retired_, &pool_.kept_}) {
    for (Pool::Retired& entry : *entries) {
      if (!entry.away) continue;
      const Range& range = *entry.range;
      if (entry.unmapped) {
        const Status status = device_.map(range.address, range.size, entry.chunk->handle);
        if (status != kSuccess) return status;
        entry.unmapped = false;
        --entry.chunk->old_unmapped;
      }
      if (const Status status = device_.set_access(range.address, range.size); status != kSuccess)
        return status;
      entry.away = false;
      --away_;
    }
  }
  return kSuccess;
}

Status Sleeper::fill_dropped(Lock& lock, Plan& plan, int value) {
  std::vector<std::pair<Address, uint64_t>> dropped;
  for (const Region& region : pool_.space_.regions) {
    for (const Range* range = region.first; range != nullptr; range = range->next) {
      if (range->is(State::live) && is_asleep(*range) && find_saved(range->address) == nullptr) {
        dropped.emplace_back(range->address, range->size);
      }
    }
  }
  if (dropped.empty()) return kSuccess;
  plan.batches.push_back({});
  lock.unlock();
  const Defer relock([&] { lock.lock(); });
  for (const auto& [address, size] : dropped) {
    const Status status = device_.raw().fill(address, static_cast<uint8_t>(value), size, streams_[0]);
    if (status != kSuccess) return status;
  }
  return device_.record(streams_[0], plan.batches.back().event);
}

/// Undoes a wake that failed. What the driver does not take back stays, asleep and counted, for the next one.
void Sleeper::take_away_again(Plan& plan) noexcept {
  const ErrorRecord cause = last_error();
  for (auto* entries : {&pool_.retired_, &pool_.kept_}) {
    for (Pool::Retired& entry : *entries) {
      if (entry.unmapped || !entry.chunk->asleep) continue;
      if (device_.unmap(entry.range->address, entry.range->size) != kSuccess) continue;
      entry.unmapped = true;
      ++entry.chunk->old_unmapped;
      if (!entry.away) ++away_;
      entry.away = true;
    }
  }
  for (Entry& entry : plan.entries) {
    Chunk& chunk = *entry.chunk;
    // What a copy may still be under way to stays mapped.
    if (entry.mapped && !copies_pending_ && device_.unmap(chunk.address, chunk.size) == kSuccess)
      chunk.unmapped = true;
    if (entry.created && (chunk.unmapped || chunk.address == 0)) release(chunk);
  }
  pool_.ledger_.budget().put(plan.missing);
  last_error() = cause;
}

void Sleeper::commit(Plan& plan) noexcept {
  for (const Batch& batch : plan.batches) {
    if (batch.size != 0) device_.raw().name_asleep(batch.start, batch.size, nullptr);
  }
  for (const Entry& entry : plan.entries) entry.chunk->asleep = entry.chunk->unmapped = false;
  away_ -= plan.entries.size();
  runs_.clear();
  runs_.shrink_to_fit();
  saved_end_ = 0;
}

}  // namespace gpupool::internal
