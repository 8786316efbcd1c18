// SPDX-License-Identifier: Apache-2.0
// Falling asleep. Everything that can fail for want of something comes first: before the first mapping goes,
// the streams have been waited for, the backup is there, and all copies are queued. From then on only the
// driver itself can refuse, and then what has gone comes back.
#include <algorithm>
#include <cinttypes>
#include <utility>
#include <vector>

#include "base/defer.hpp"
#include "base/log.hpp"
#include "pool/pool.hpp"
#include "pool/sleep_parts.hpp"

namespace gpupool::internal {
namespace {

/// Holes of up to this between two blocks are copied with them: a second copy would take the bus as long.
constexpr uint64_t kGap = 64 * kKiB;

}  // namespace

Status Sleeper::fall_asleep(Lock& lock, const SleepOptions& options, Result& result) {
  drain_lanes();
  if (const Status status = check_captures(); status != kSuccess) return status;
  // Nothing new becomes live from here on.
  Plan plan;
  plan_runs(plan, options, 0);
  if (const Status status = saved_.prepare(lock, plan); status != kSuccess) return status;
  if (const Status status = quiesce(lock, options); status != kSuccess) return status;
  const uint64_t used = pool_.ledger_.used();
  uint64_t free_before = 0;
  const bool knows_free = device_.raw().free_memory(free_before) == kSuccess;
  if (const Status status = release_free(); status != kSuccess) return status;
  plan_runs(plan, options, kGap);
  if (saved_.end_with(plan) > saved_.capacity()) plan_runs(plan, options, 0);
  add_chunks(plan, [](const Chunk& chunk) { return !chunk.asleep; });
  saved_.reserve(plan.runs.size());  // here, since nothing may throw once copies are queued
  if (const Status status = save_runs(lock, plan); status != kSuccess) return status;
  saved_.add(plan.runs);
  if (const Status status = unmap_and_release(lock, plan, !options.drops); status != kSuccess) {
    saved_.abandon(lock, plan);
    return status;
  }
  result.released_bytes = used - pool_.ledger_.used();
  result.saved_bytes = plan.saved;
  result.dropped_bytes = plan.dropped;
  result.retained_bytes = pool_.ledger_.used();
  result.released_bytes += result.retained_bytes;
  uint64_t free_after = 0;
  if (knows_free && device_.raw().free_memory(free_after) == kSuccess) {
    const uint64_t rise = free_after - std::min(free_after, free_before);
    result.retained_bytes = result.released_bytes - std::min(result.released_bytes, rise);
  }
  if (result.retained_bytes != 0 && log_enabled(GPUPOOL_LOG_WARNING)) {
    log_line(GPUPOOL_LOG_WARNING,
             "pool '%s' sleeps, and the device has %" PRIu64 " bytes less than it gave back", name_.c_str(),
             result.retained_bytes);
  }
  return kSuccess;
}

/// Takes all blocks from threads' caches, and their lanes: without a lane, every free takes the long way, and
/// no malloc finds a block.
void Sleeper::drain_lanes() noexcept {
  pool_.caches_.for_each([&](ThreadCache& cache) {
    while (!cache.lanes.empty()) {
      pool_.way_back_.free_all_to_heap(pool_.caches_.close_lane(cache, cache.lanes.victim()->stream));
    }
  });
}

/// Refuses during a capture: its graph would have the addresses of memory that is about to go.
Status Sleeper::check_captures() {
  for (const auto& state : pool_.streams_.all()) {
    if (state->order.is_retired() || !state->order.capturing()) continue;
    return fail(GPUPOOL_ERROR_UNAVAILABLE,
                "stream 0x%" PRIxPTR
                " captures a graph, or the driver does not say: the pool cannot sleep now",
                state->order.stream());
  }
  return kSuccess;
}

/// Waits until no work that is queued can touch the pool's memory.
Status Sleeper::wait_for_work(Lock& lock, const SleepOptions& options) {
  if (const Status status = check_captures(); status != kSuccess) return status;
  if (const Status status = pool_.way_back_.wait_for_streams(lock, "sleep"); status != kSuccess)
    return status;
  if (options.sync_context) {
    lock.unlock();
    const Defer relock([&] { lock.lock(); });
    if (const Status status = device_.synchronize_all(); status != kSuccess) return status;
  }
  pool_.streams_.next_round();
  return kSuccess;
}

/// The same, and until no freed block waits any more.
Status Sleeper::quiesce(Lock& lock, const SleepOptions& options) {
  do {
    if (const Status status = wait_for_work(lock, options); status != kSuccess) return status;
    pool_.way_back_.settle_all_pending(lock);
  } while (!pool_.pending_.empty());
  return kSuccess;
}

/// Releases what no block touches, without a copy. What graphs may use stays, to come back with the rest.
Status Sleeper::release_free() {
  pool_.streams_.next_round();
  const bool is_a_graphs = pool_.captures_.hold_all() || pool_.options_.is_child;
  if (!is_a_graphs) pool_.backing_.unmap_passed();
  bool blocked = false;
  if (const Status status = pool_.backing_.release_in_hand(nullptr, 0, blocked); status != kSuccess)
    return status;
  return is_a_graphs ? kSuccess : pool_.backing_.release_free(nullptr, 0, blocked);
}

bool Sleeper::saves(const Range& range, const SleepOptions& options) const noexcept {
  return !options.drops || keep_.contains(range.address);
}

/// Plans, from scratch, what is saved and where.
void Sleeper::plan_runs(Plan& plan, const SleepOptions& options, uint64_t most_gap) const {
  plan.runs.clear();
  plan.backup_bytes = plan.saved = plan.dropped = 0;
  for (const Region& region : pool_.space_.regions) {
    for (const Range* range = region.first; range != nullptr; range = range->next) {
      if (!range->is(State::live)) continue;
      if (is_asleep(*range)) {
        add_awake_parts(plan, *range, saves(*range, options));
      } else if (saves(*range, options)) {
        plan.add_run(*range, most_gap);
      } else {
        plan.dropped += range->size;
      }
    }
  }
  std::sort(plan.runs.begin(), plan.runs.end(),
            [](const Run& a, const Run& b) { return a.address < b.address; });
  saved_.place(plan);
}

/// The same of a block that sleeps alone: the parts in chunks that it shares.
void Sleeper::add_awake_parts(Plan& plan, const Range& range, bool saves) {
  for_chunks(*range.region, range.address, range.end(), [&](const Chunk* chunk) {
    if (chunk->asleep) return;
    const Address start = std::max(chunk->address, range.address);
    const uint64_t size = std::min(chunk->end(), range.end()) - start;
    if (!saves) {
      plan.dropped += size;
      return;
    }
    plan.saved += size;
    plan.runs.push_back({start, size, plan.backup_bytes});
    plan.backup_bytes += size;
  });
}

/// Queues every copy, so that a refusal comes while all memory is still there.
Status Sleeper::save_runs(Lock& lock, Plan& plan) {
  if (plan.runs.empty()) return kSuccess;
  Status status = kSuccess;
  {
    lock.unlock();
    const Defer relock([&] { lock.lock(); });
    for (size_t i = 0; i < plan.batches.size() && status == kSuccess; ++i) {
      status = saved_.copy_batch(plan, plan.batches[i], i, true);
    }
  }
  if (status != kSuccess) saved_.abandon(lock, plan);
  return status;
}

/// Unmaps each batch as its copies pass. Releases its memory with it if `at_once`, else after the last unmap:
/// nothing could bring dropped contents back if an unmap failed.
Status Sleeper::unmap_and_release(Lock& lock, Plan& plan, bool at_once) {
  if (!at_once) {
    for (Batch& batch : plan.batches) {
      if (const Status status = saved_.wait_for_batch(lock, batch); status != kSuccess) return status;
    }
  }
  if (!plan.is_part) {
    if (const Status status = chunks_.unmap_old(); status != kSuccess) return status;
  }
  for (Batch& batch : plan.batches) {
    if (const Status status = saved_.wait_for_batch(lock, batch); status != kSuccess) return status;
    if (const Status status = chunks_.unmap_batch(plan, batch, name_.c_str()); status != kSuccess)
      return status;
    if (at_once) chunks_.release_batch(plan, batch);
  }
  for (const Batch& batch : plan.batches) {
    if (!at_once) chunks_.release_batch(plan, batch);
  }
  return kSuccess;
}

}  // namespace gpupool::internal
