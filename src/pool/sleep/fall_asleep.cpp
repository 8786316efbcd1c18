// SPDX-License-Identifier: Apache-2.0
#include "pool/sleep/fall_asleep.hpp"

#include <algorithm>
#include <cinttypes>

#include "base/log.hpp"
#include "pool/memory/backing.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/request/reclaimer.hpp"
#include "pool/sleep/asleep_chunks.hpp"
#include "pool/sleep/lone_blocks.hpp"
#include "pool/sleep/saved_bytes.hpp"
#include "pool/stream/pending.hpp"

namespace gpupool::internal {
namespace {

/// Holes of up to this between two blocks are copied with them: a second copy would take the bus as long.
constexpr uint64_t kGap = 64 * kKiB;

}  // namespace

Status check_no_capture(const Streams& streams) {
  for (const auto& state : streams.all()) {
    if (state->order.is_retired() || !state->order.capturing()) continue;
    return fail(GPUPOOL_ERROR_UNAVAILABLE,
                "stream 0x%" PRIxPTR
                " captures a graph, or the driver does not say: the pool cannot sleep now",
                state->order.stream());
  }
  return kSuccess;
}

Status FallAsleep::run(Result& result) {
  drain_lanes();
  if (const Status status = check_no_capture(in_.pool.streams); status != kSuccess) return status;
  // Nothing new becomes live from here on.
  Plan plan;
  plan_runs(plan, 0);
  if (const Status status = in_.saved.prepare(lock_, plan); status != kSuccess) return status;
  if (const Status status = quiesce(); status != kSuccess) return status;
  const uint64_t used = in_.pool.ledger.used();
  uint64_t free_before = 0;
  const bool knows_free = in_.pool.device.raw().free_memory(free_before) == kSuccess;
  if (const Status status = release_free(); status != kSuccess) return status;
  plan_runs(plan, kGap);
  if (in_.saved.end_with(plan) > in_.saved.capacity()) plan_runs(plan, 0);
  plan.add_chunks(in_.pool.space, in_.pool.backing, [](const Chunk& chunk) { return !chunk.asleep; });
  in_.saved.reserve(plan.runs.size());  // here, since nothing may throw once copies are queued
  if (const Status status = save_runs(plan); status != kSuccess) return status;
  in_.saved.add(plan.runs);
  if (const Status status = unmap_and_release(plan); status != kSuccess) {
    in_.saved.abandon(lock_, plan);
    return status;
  }
  result.released_bytes = used - in_.pool.ledger.used();
  result.saved_bytes = plan.saved;
  result.dropped_bytes = plan.dropped;
  result.retained_bytes = in_.pool.ledger.used();
  result.released_bytes += result.retained_bytes;
  uint64_t free_after = 0;
  if (knows_free && in_.pool.device.raw().free_memory(free_after) == kSuccess) {
    const uint64_t rise = free_after - std::min(free_after, free_before);
    result.retained_bytes = result.released_bytes - std::min(result.released_bytes, rise);
  }
  if (result.retained_bytes != 0 && log_enabled(GPUPOOL_LOG_WARNING)) {
    log_line(GPUPOOL_LOG_WARNING,
             "pool '%s' sleeps, and the device has %" PRIu64 " bytes less than it gave back",
             in_.pool.gate.name.c_str(), result.retained_bytes);
  }
  return kSuccess;
}

/// Takes all blocks from threads' caches, and their lanes: without a lane, every free takes the long way, and
/// no malloc finds a block.
void FallAsleep::drain_lanes() noexcept {
  in_.pool.caches.for_each([&](ThreadCache& cache) {
    while (!cache.lanes.empty()) {
      in_.reclaimer.free_all_to_heap(in_.pool.caches.close_lane(cache, cache.lanes.victim()->stream));
    }
  });
}

Status FallAsleep::wait_for_work() {
  if (const Status status = check_no_capture(in_.pool.streams); status != kSuccess) return status;
  return in_.reclaimer.wait_for_streams(lock_, "sleep", Reclaimer::Extent::everything);
}

/// The same, and until no freed block waits any more.
Status FallAsleep::quiesce() {
  for (bool goes_on = true; goes_on;) {
    if (const Status status = wait_for_work(); status != kSuccess) return status;
    // What is settled only now is stamped after what was waited for.
    goes_on = in_.reclaimer.settle_all_pending(lock_) != 0 || !in_.pool.pending.empty();
  }
  return kSuccess;
}

/// Releases what no block touches, without a copy. What graphs may use stays, to come back with the rest.
Status FallAsleep::release_free() {
  in_.pool.streams.next_round();
  in_.pool.backing.unmap_passed(Retention::Cause::sleep);
  bool blocked = false;
  if (const Status status = in_.pool.backing.release_in_hand(nullptr, 0, Retention::Cause::sleep, blocked);
      status != kSuccess)
    return status;
  return in_.pool.backing.release_free(nullptr, 0, Retention::Cause::sleep, blocked);
}

bool FallAsleep::saves(const Range& range) const noexcept {
  return !options_.drops || in_.blocks.is_kept(range.address);
}

/// Plans, from scratch, what is saved and where.
void FallAsleep::plan_runs(Plan& plan, uint64_t most_gap) const {
  plan.runs.clear();
  plan.backup_bytes = plan.saved = plan.dropped = 0;
  for (const Region& region : in_.pool.space.regions) {
    for (const Range* range = region.first; range != nullptr; range = range->next) {
      if (!range->is(State::live)) continue;
      if (in_.chunks.are_in(*range)) {
        add_awake_parts(plan, *range, saves(*range));
      } else if (saves(*range)) {
        plan.add_run(*range, most_gap);
      } else {
        plan.dropped += range->size;
      }
    }
  }
  std::sort(plan.runs.begin(), plan.runs.end(),
            [](const SavedRun& a, const SavedRun& b) { return a.address < b.address; });
  in_.saved.place(plan);
}

/// The same of a block that sleeps alone: the parts in chunks that it shares.
void FallAsleep::add_awake_parts(Plan& plan, const Range& range, bool saves) {
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

Status FallAsleep::save_runs(Plan& plan) {
  if (plan.runs.empty()) return kSuccess;
  Status status = kSuccess;
  lock_.give_up_for([&] {
    for (size_t i = 0; i < plan.batches.size() && status == kSuccess; ++i) {
      status = in_.saved.copy_batch(plan, plan.batches[i], i, true);
    }
  });
  if (status != kSuccess) in_.saved.abandon(lock_, plan);
  return status;
}

Status FallAsleep::unmap_and_release(Plan& plan) {
  const bool at_once = !options_.drops;
  if (!at_once) {
    for (Batch& batch : plan.batches) {
      if (const Status status = in_.saved.wait_for_batch(lock_, batch); status != kSuccess) return status;
    }
  }
  if (!plan.is_part) {
    if (const Status status = in_.chunks.unmap_old(); status != kSuccess) return status;
  }
  for (Batch& batch : plan.batches) {
    if (const Status status = in_.saved.wait_for_batch(lock_, batch); status != kSuccess) return status;
    if (const Status status = in_.chunks.unmap_batch(plan, batch, in_.pool.gate.name.c_str());
        status != kSuccess)
      return status;
    if (at_once) in_.chunks.release_batch(plan, batch);
  }
  for (const Batch& batch : plan.batches) {
    if (!at_once) in_.chunks.release_batch(plan, batch);
  }
  return kSuccess;
}

}  // namespace gpupool::internal
