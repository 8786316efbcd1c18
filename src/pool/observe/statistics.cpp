// SPDX-License-Identifier: Apache-2.0
#include "pool/observe/statistics.hpp"

#include <algorithm>
#include <iterator>

#include "pool/memory/pool_state.hpp"
#include "pool/memory/release.hpp"
#include "pool/sleep/sleeper.hpp"

namespace gpupool::internal {
namespace {

gpupool_stat_t stat_of(uint64_t current, uint64_t peak, uint64_t allocated) noexcept {
  return {current, std::max(peak, current), allocated, allocated - std::min(allocated, current)};
}

gpupool_stat_t stat_of(const Flow& flow) noexcept {
  return {flow.current, flow.peak, flow.in, flow.out};
}

/// A pending block is active, so the active figures count it as not yet freed. All blocks lie in reserved
/// memory, so no peak of theirs exceeds its peak.
gpupool_stat_group_t group_of_stats(const Amounts& total, const Amounts& live, const Amounts& pending,
                                    const Counters::Peaks& peaks, const Flow& reserved,
                                    const Flow& chunks) noexcept {
  gpupool_stat_group_t group{};
  const auto at_most = [&](uint64_t peak) { return std::min(peak, reserved.peak); };
  group.requested_bytes = stat_of(live.requested, at_most(peaks.live.requested), total.requested);
  group.allocated_bytes = stat_of(live.allocated, at_most(peaks.live.allocated), total.allocated);
  group.allocated_blocks = stat_of(live.blocks, peaks.live.blocks, total.blocks);
  group.active_bytes =
      stat_of(live.allocated + pending.allocated, at_most(peaks.active.allocated), total.allocated);
  group.active_blocks = stat_of(live.blocks + pending.blocks, peaks.active.blocks, total.blocks);
  group.reserved_bytes = stat_of(reserved);
  group.chunks = stat_of(chunks);
  return group;
}

gpupool_driver_stats_t calls_of(const MeteredDevice& device) noexcept {
  gpupool_driver_stats_t calls{};
  gpupool_call_stat_t* const fields[] = {&calls.create,     &calls.release,     &calls.map,
                                         &calls.set_access, &calls.unmap,       &calls.address,
                                         &calls.malloc,     &calls.free,        &calls.event_record,
                                         &calls.query,      &calls.stream_wait, &calls.host_wait};
  static_assert(std::size(fields) == static_cast<size_t>(Call::copy));
  for (size_t call = 0; call < std::size(fields); ++call)
    *fields[call] = device.total(static_cast<Call>(call));
  return calls;
}

}  // namespace

void Statistics::read(gpupool_stats_t& stats) noexcept {
  pool_.caches.fold(pool_.counters);
  GroupAmounts total{};
  GroupAmounts live{};
  GroupAmounts pending{};
  stats.hits = stats.misses = 0;
  pool_.caches.for_each_locked([&](const ThreadCache& cache) {
    for (size_t g = 0; g < kGroups; ++g) {
      total[g] += cache.counters.total()[g];
      live[g] += cache.counters.live()[g];
      pending[g] += cache.counters.pending()[g];
    }
    stats.hits += cache.counters.mallocs() - cache.counters.misses;
    stats.misses += cache.counters.misses;
  });
  uint64_t divided = 0;  // bytes between the parts of blocks that callers divide
  for (const SizeGroup which : {SizeGroup::small, SizeGroup::large}) {
    const Counters::Parts& parts = pool_.counters.parts(which);
    const auto at = static_cast<size_t>(index_of(which));
    total[at] += parts.total;
    live[at] += parts.live;
    pending[at] += parts.pending;
    divided -= parts.live.allocated + parts.pending.allocated;
    live[at].end_at_zero();
    pending[at].end_at_zero();
  }
  const auto group = [&](SizeGroup which) {
    const auto at = static_cast<size_t>(index_of(which));
    return group_of_stats(total[at], live[at], pending[at], pool_.counters.peak_with_parts(which),
                          pool_.ledger.reserved(which), pool_.ledger.chunks(which));
  };
  stats.small = group(SizeGroup::small);
  stats.large = group(SizeGroup::large);
  stats.all =
      group_of_stats(total[0] + total[1], live[0] + live[1], pending[0] + pending[1],
                     pool_.counters.peak_all_with_parts(), pool_.ledger.reserved(), pool_.ledger.chunks());
  const Budget& budget = pool_.ledger.budget();
  stats.device = pool_.device.info().ordinal;
  stats.limit_bytes = budget.own_limit() == Budget::kNone ? 0 : budget.own_limit();
  stats.own_limit_bytes = budget.asked_limit() == Budget::kNone ? 0 : budget.asked_limit();
  if (const GroupLimit* limit = pool_.group.limit; limit != nullptr) {
    stats.share_state = GPUPOOL_SHARE_STATE_SHARED;
    stats.share_slot = limit->member().slot();
    stats.share_given_bytes = limit->member().given();
    stats.share_taken_bytes = limit->member().taken();
  } else if (pool_.group.runs_alone) {
    stats.share_state = GPUPOOL_SHARE_STATE_ALONE;
  }
  stats.releasable_bytes = releasable(pool_);
  const uint64_t used = stats.all.reserved_bytes.current;
  stats.slack_bytes = pool_.captures.kept_bytes();
  stats.cached_bytes = used - std::min(used, stats.all.active_bytes.current + divided + stats.slack_bytes);
  stats.driver = calls_of(pool_.device);
  stats.copy = pool_.device.total(Call::copy);
  stats.stream = pool_.device.total(Call::stream);
  sleeper_.add_stats(stats);
  stats.steals = pool_.ledger.steals();
  stats.stream_steals = pool_.ledger.stream_steals();
  stats.retries = pool_.shortages.retries;
  stats.oom_handler_calls = pool_.shortages.handler_calls;
  stats.failed_mallocs = pool_.shortages.failed_mallocs;
  stats.streams = pool_.streams.count();
  stats.metadata_bytes = pool_.space.store.bytes() + pool_.space.map.bytes() + pool_.caches.bytes() +
                         pool_.streams.bytes() + pool_.space.chunks.count() * sizeof(Chunk);
}

void Statistics::count_parts(int32_t what, SizeGroup group, const Amounts& parts, int32_t change) noexcept {
  const Amounts signed_parts = change > 0 ? parts : Amounts{} - parts;
  Counters::Parts by;
  switch (what) {
    case GPUPOOL_BLOCK_LIVE:
      by.live = signed_parts;
      if (change > 0) by.total = parts;
      break;
    case GPUPOOL_BLOCK_PENDING: by.pending = signed_parts; break;
    default:  // blocks that are divided
      by.live = Amounts{} - signed_parts;
      if (change > 0) by.total = by.live;
  }
  const Caches::AllLocked locked(pool_.caches);
  const auto for_each = [this](auto visit) {
    pool_.caches.for_each([&](ThreadCache& cache) { visit(cache.counters); });
  };
  pool_.counters.add_parts(for_each, group, by);
}

void Statistics::reset_peaks() noexcept {
  const Caches::AllLocked locked(pool_.caches);
  pool_.counters.reset_peaks(
      [this](auto visit) { pool_.caches.for_each([&](ThreadCache& cache) { visit(cache.counters); }); });
  pool_.ledger.reset_peaks();
}

}  // namespace gpupool::internal
