// SPDX-License-Identifier: Apache-2.0
// Waking. The whole need is charged to the limit, and looked for on the device, before the first chunk is
// created; a failure releases all that was created, and the pool sleeps on with what it had saved.
#include <algorithm>
#include <chrono>
#include <cinttypes>

#include "base/defer.hpp"
#include "os/process.hpp"
#include "pool/blocks.hpp"
#include "pool/pool.hpp"
#include "pool/sleep_parts.hpp"

namespace gpupool::internal {
namespace {

using Clock = std::chrono::steady_clock;

/// With such chunks, the driver's time is small even beside a drop.
constexpr uint64_t kCoarsest = policy::kLargestChunk;
/// A block's share of a chunk.
constexpr uint64_t kBlockParts = 16;

/// How long to sleep between two looks for memory that others give back.
constexpr std::chrono::milliseconds kLook{1};

/// How often the pause after a collision may double.
constexpr uint32_t kMostDoublings = 3;

/// How long to wait after the room that was seen went to others, who may be wakes of other processes and have
/// failed as well: by chance, since those that wait as long as each other meet again; and longer, the longer
/// a try takes and the more of them have failed.
Clock::duration pause_after(Clock::duration tried, uint32_t collisions) noexcept {
  constexpr unsigned kBits = 16;
  const auto now = static_cast<uint64_t>(Clock::now().time_since_epoch().count());
  const size_t chance = hash_to(kBits, now ^ os::process_id() << 40);
  return tried * (1 << std::min(collisions, kMostDoublings)) * static_cast<Clock::rep>(chance) / (1 << kBits);
}

Clock::time_point deadline_after(uint64_t nanoseconds) noexcept {
  constexpr uint64_t kLongest = uint64_t{365} * 24 * 3600 * 1'000'000'000;
  return Clock::now() + std::chrono::nanoseconds(std::min(nanoseconds, kLongest));
}

}  // namespace

/// Everything from asleep to awake, or a part. On failure all is asleep as before.
Status Sleeper::wake_chunks(Lock& lock, const SleepOptions& options, Part part, Result& result) {
  const Clock::time_point deadline = deadline_after(options.timeout_ns);
  uint32_t collisions = 0;
  for (uint32_t attempt = 0;; ++attempt) {
    Clock::duration pause = kLook;
    Plan plan;
    if (part.block == 0) {
      detach_freed();
      coarsen_chunks();
      plan_wake(plan, part.is_own);
    } else if (const Status status = plan_block(plan, part.block); status != kSuccess) {
      return status;
    }
    Status status = plan.runs.empty() && options.fill < 0 ? kSuccess : open_streams();
    if (status == kSuccess) status = charge_room(lock, plan.missing);
    if (status == kSuccess) {
      const uint64_t created = plan.missing;
      const Clock::time_point start = Clock::now();
      if (collisions != 0) status = create_all(plan);
      if (status == kSuccess) status = restore_all(lock, options, plan);
      if (status == kSuccess) {
        result.created_bytes = created;
        result.saved_bytes = plan.saved;
        result.dropped_bytes = plan.dropped;
        return kSuccess;
      }
      // Others took the room that was there.
      pause += pause_after(Clock::now() - start, ++collisions);
    }
    if (!is_shortage(status)) return status;
    if (pool_.oom_handler_.ask(lock, plan.missing, attempt + 1)) continue;
    if (Clock::now() >= deadline) return status;
    // Others' sleeps, wakes and destroys are no news to this pool: it has to look.
    changed_.wait_until(lock, std::min(deadline, Clock::now() + pause));
  }
}

/// Chunks that no block is in any more need no memory: their addresses become bare.
void Sleeper::detach_freed() {
  std::vector<Chunk*> freed;
  for (const Region& region : pool_.space_.regions) {
    for_each_chunk(region, [&](Chunk* chunk) {
      if (chunk->asleep && chunk->unmapped && chunk->users == 0 && chunk->old_mappings == 0 &&
          !pool_.captures_.keep_mappings(static_cast<StreamHeap*>(chunk->heap)->state())) {
        freed.push_back(chunk);
      }
    });
  }
  for (Chunk* chunk : freed) {
    pool_.space_.store.reserve(2);
    if (chunk->handle != 0) release_chunk(*chunk);
    if (chunk->handle != 0) continue;
    chunk->heap->claim_chunk(chunk);
    Heap::reuse_retired(chunk->heap->detach(chunk));
    asleep_bytes_ -= chunk->size;
    --(chunk->alone ? alone_chunks_ : away_);
    pool_.space_.chunks.recycle(chunk);
  }
}

/// A large block gets its memory back in larger chunks: the driver is paid by the chunk.
void Sleeper::coarsen_chunks() noexcept {
  for (const Region& region : pool_.space_.regions) {
    for (const Range* range = region.first; range != nullptr; range = range->next) {
      if (range->is(State::live) && range->size >= kBlockParts * 2 * kGranule) coarsen_chunks(*range);
    }
  }
}

/// Sizes stay powers of two, so that the chunks fit other requests once they are free.
void Sleeper::coarsen_chunks(const Range& block) noexcept {
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
      if (count != 0 && chunk->alone != run[0]->alone) break;
      run[count++] = chunk;
      size += chunk->size;
      if (is_power_of_two(size)) merged = count;
    }
    if (merged > 1) {
      run[0]->heap->merge_chunks(run.data(), merged);
      for (size_t i = 1; i < merged; ++i) pool_.space_.chunks.recycle(run[i]);
      (run[0]->alone ? alone_chunks_ : away_) -= merged - 1;
      at = run[0]->end();
    } else {
      at = region.pages[region.page_of(at)]->end();
    }
  }
}

/// What is asleep, and what was saved of it: of the blocks that are still live.
void Sleeper::plan_wake(Plan& plan, bool is_own) const {
  add_chunks(plan, [&](const Chunk& chunk) { return chunk.asleep && !(is_own && chunk.alone); });
  for (const Region& region : pool_.space_.regions) {
    for (const Range* range = region.first; range != nullptr; range = range->next) {
      if (range->is(State::live) && is_asleep(*range)) add_contents(plan, *range);
    }
  }
  for (auto* runs : {&plan.runs, &plan.dropped_runs}) {
    std::sort(runs->begin(), runs->end(), [](const Run& a, const Run& b) { return a.address < b.address; });
  }
  count_contents(plan);
}

/// Adds what was saved of a live block, and what was not.
void Sleeper::add_contents(Plan& plan, const Range& range) const {
  Address done = range.address;
  const auto drop_until = [&](Address end) {
    if (done < end) plan.dropped_runs.push_back({done, end - done, 0});
  };
  (void)for_parts(runs_, {range.address, range.size}, [&](Address address, uint64_t size, uint64_t offset) {
    drop_until(address);
    done = address + size;
    if (!plan.runs.empty()) {
      Run& last = plan.runs.back();
      if (last.address + last.size == address && last.offset + last.size == offset) {
        last.size += size;
        return kSuccess;
      }
    }
    plan.runs.push_back({address, size, offset});
    return kSuccess;
  });
  drop_until(range.end());
}

/// Counts only what is in the plan's chunks.
void Sleeper::count_contents(Plan& plan) {
  for (const Batch& batch : plan.batches) {
    plan.saved += bytes_in(plan.runs, batch);
    plan.dropped += bytes_in(plan.dropped_runs, batch);
  }
}

/// The chunks of one block that are asleep, and what was saved of all that is in them.
Status Sleeper::plan_block(Plan& plan, Address address) {
  const Range* block = find_live(address);
  // It may have been freed since the lock was given up.
  if (block == nullptr) return not_a_block(pool_.space_, address);
  plan.is_part = true;
  if (block->size >= kBlockParts * 2 * kGranule) coarsen_chunks(*block);
  for_chunks(*block->region, block->address, block->end(), [&](Chunk* chunk) {
    if (chunk->asleep) add_chunk(plan, chunk);
  });
  if (plan.batches.empty()) return kSuccess;
  const Range* range = block;
  while (range->prev != nullptr && range->address > plan.batches.front().start) range = range->prev;
  const Address end = plan.batches.back().start + plan.batches.back().size;
  for (; range != nullptr && range->address < end; range = range->next) {
    if (range->is(State::live)) add_contents(plan, *range);
  }
  count_contents(plan);
  return kSuccess;
}

uint64_t Sleeper::bytes_in(const std::vector<Run>& runs, const Batch& batch) {
  uint64_t bytes = 0;
  (void)for_parts(runs, batch, [&](Address, uint64_t size, uint64_t) {
    bytes += size;
    return kSuccess;
  });
  return bytes;
}

/// For a block of an awake pool: releases what the pool itself has cached, up to `bytes`.
void Sleeper::release_cached(Lock& lock, uint64_t bytes) {
  if (!is_awake()) return;
  pool_.way_back_.drain_all(lock);
  pool_.way_back_.settle_all_pending(lock);
  const uint64_t used = pool_.ledger_.used();
  bool blocked = false;
  (void)pool_.source_->release(lock, used - std::min(used, bytes), true, blocked);
}

/// Takes `bytes` from the limit, where the device has them too, after other pools' caches are emptied.
Status Sleeper::charge_room(Lock& lock, uint64_t bytes) {
  Budget& budget = pool_.ledger_.budget();
  if (budget.room() < bytes) release_cached(lock, bytes);
  for (bool emptied = false;; emptied = true) {
    if (!budget.charge(bytes)) {
      if (!emptied && pool_.neighbours() != nullptr && budget.own_room() >= bytes) {
        pool_.others_.empty(lock);
        if (budget.room() >= bytes || ask_neighbours(lock, pool_.rooms_, bytes)) continue;
      }
      return fail(GPUPOOL_ERROR_OVER_LIMIT,
                  "waking needs %" PRIu64 " bytes, and %" PRIu64 " are left of the limit of %" PRIu64, bytes,
                  budget.room(), budget.limit());
    }
    uint64_t free = 0;
    if (device_.raw().free_memory(free) != kSuccess || free >= bytes) return kSuccess;
    budget.refund(bytes);
    if (emptied) {
      return fail(GPUPOOL_ERROR_OUT_OF_MEMORY,
                  "waking needs %" PRIu64 " bytes, and the device has %" PRIu64 " free", bytes, free);
    }
    release_cached(lock, bytes);
    pool_.others_.empty(lock);
    (void)ask_neighbours(lock, pool_.rooms_, bytes);
  }
}

/// Creates all before anything is mapped: mapping takes most of the time, and while it lasts others would
/// begin to wake in the same room.
Status Sleeper::create_all(Plan& plan) {
  Status status = kSuccess;
  for (size_t i = 0; i < plan.entries.size() && status == kSuccess; ++i)
    status = create_entry(plan, plan.entries[i]);
  if (status != kSuccess) undo_restore(plan);
  return status;
}

/// Creates, maps and fills, a batch being copied while the next is mapped.
Status Sleeper::restore_all(Lock& lock, const SleepOptions& options, Plan& plan) {
  Status status = kSuccess;
  for (size_t i = 0; i < plan.batches.size() && status == kSuccess; ++i) {
    status = restore_batch(plan, plan.batches[i]);
    if (status != kSuccess || plan.runs.empty()) continue;
    lock.unlock();
    const Defer relock([&] { lock.lock(); });
    status = copy_batch(plan, plan.batches[i], i, false);
  }
  // A graph needs all of its memory: what its mappings lead to comes with the last block.
  if (status == kSuccess && !plan.is_part) status = map_old();
  if (status == kSuccess && options.fill >= 0) status = fill_dropped(lock, plan, options.fill);
  for (Batch& batch : plan.batches) {
    if (status == kSuccess) status = wait_for_batch(lock, batch);
  }
  if (status == kSuccess) {
    commit(plan);
    return kSuccess;
  }
  abandon_copies(lock, plan);
  undo_restore(plan);
  return status;
}

/// Has the device create a chunk, where it has the memory now.
Status Sleeper::create_entry(Plan& plan, Entry& entry) {
  Chunk& chunk = *entry.chunk;
  if (chunk.handle != 0) return kSuccess;
  if (const Status status = device_.create_chunk(chunk.size, chunk.handle); status != kSuccess) return status;
  entry.created = true;
  pool_.ledger_.created(chunk.size);
  if (chunk.heap != nullptr) {
    pool_.ledger_.attached(chunk.heap->group(), chunk.size);
    pool_.narrator_.mapped(*static_cast<StreamHeap*>(chunk.heap), chunk.address, chunk.size);
  }
  asleep_bytes_ -= chunk.size;
  plan.missing -= chunk.size;
  return kSuccess;
}

Status Sleeper::restore_batch(Plan& plan, Batch& batch) {
  for (size_t i = 0; i < batch.count; ++i) {
    Entry& entry = plan.entries[batch.first + i];
    Chunk& chunk = *entry.chunk;
    if (const Status status = create_entry(plan, entry); status != kSuccess) return status;
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
  Status status = kSuccess;
  pool_.backing_.for_each_old([&](OldMapping& old) {
    if (status != kSuccess || !old.away) return;
    const Range& range = *old.range;
    if (old.unmapped) {
      status = device_.map(range.address, range.size, old.chunk->handle);
      if (status != kSuccess) return;
      old.unmapped = false;
      --old.chunk->old_unmapped;
    }
    status = device_.set_access(range.address, range.size);
    if (status != kSuccess) return;
    old.away = false;
    --away_;
  });
  return status;
}

Status Sleeper::fill_dropped(Lock& lock, Plan& plan, int value) {
  if (plan.dropped_runs.empty()) return kSuccess;
  plan.batches.push_back({});
  lock.unlock();
  const Defer relock([&] { lock.lock(); });
  for (const Batch& batch : plan.batches) {
    const Status status = for_parts(plan.dropped_runs, batch, [&](Address address, uint64_t size, uint64_t) {
      return device_.fill_words(address, static_cast<uint8_t>(value) * 0x01010101U, size, streams_[0]);
    });
    if (status != kSuccess) return status;
  }
  return device_.record(streams_[0], plan.batches.back().event);
}

/// Undoes a wake that failed. What the driver does not take back stays, asleep and counted, for the next one.
void Sleeper::undo_restore(Plan& plan) noexcept {
  const ErrorRecord cause = last_error();
  pool_.backing_.for_each_old([&](OldMapping& old) {
    if (old.unmapped || !old.chunk->asleep) return;
    if (device_.unmap(old.range->address, old.range->size) != kSuccess) return;
    old.unmapped = true;
    ++old.chunk->old_unmapped;
    if (!old.away) ++away_;
    old.away = true;
  });
  for (Entry& entry : plan.entries) {
    Chunk& chunk = *entry.chunk;
    // What a copy may still be under way to stays mapped.
    if (entry.mapped && !copies_pending_ && device_.unmap(chunk.address, chunk.size) == kSuccess)
      chunk.unmapped = true;
    if (entry.created && (chunk.unmapped || chunk.address == 0)) release_chunk(chunk);
  }
  pool_.ledger_.budget().refund(plan.missing);
  last_error() = cause;
}

void Sleeper::commit(Plan& plan) noexcept {
  for (const Batch& batch : plan.batches) {
    if (batch.size != 0) device_.raw().name_asleep(batch.start, batch.size, nullptr);
  }
  for (const Entry& entry : plan.entries) {
    Chunk& chunk = *entry.chunk;
    --(chunk.alone ? alone_chunks_ : away_);
    chunk.asleep = chunk.unmapped = chunk.alone = false;
  }
  // A sleeping pool's runs may be of several blocks.
  if (!plan.is_part || is_awake()) forget_saved();
}

}  // namespace gpupool::internal
