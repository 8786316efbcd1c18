// SPDX-License-Identifier: Apache-2.0
#include "pool/statistics.hpp"

#include <algorithm>
#include <iterator>

#include "pool/backing.hpp"
#include "pool/rooms.hpp"

namespace gpupool::internal {
namespace {

gpupool_stat_t stat_of(uint64_t current, uint64_t peak, uint64_t allocated) noexcept {
  return {current, std::max(peak, current), allocated, allocated - current};
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

uint64_t Statistics::releasable() const noexcept {
  uint64_t bytes = backing_.bytes_in_hand();
  if (rooms_.captures.hold_all() || !rooms_.sleeper.is_awake()) return bytes;
  bytes += rooms_.space.free_chunks.bytes();
  const Caches::AllLocked locked(rooms_.caches);
  visit_cached([&](Chunk* chunk) {
    if (++chunk->cached_users == chunk->users) bytes += chunk->size;
  });
  visit_cached([](Chunk* chunk) { chunk->cached_users = 0; });
  return bytes;
}

/// Calls visit(chunk) for each chunk of each of the first blocks in threads' caches, which are locked.
template <typename Visit>
void Statistics::visit_cached(Visit visit) const {
  constexpr size_t kBlocks = 1024;
  size_t blocks = 0;
  rooms_.caches.for_each([&](ThreadCache& cache) {
    cache.lanes.for_each([&](const Lane& lane) {
      if (blocks >= kBlocks) return;
      lane.bins.for_each([&](const Range* block) {
        if (!heap_of(*block).shares()) return true;
        for_chunks(*block->region, block->address, block->end(), visit);
        return ++blocks < kBlocks;
      });
    });
  });
}

void Statistics::read(gpupool_stats_t& stats) noexcept {
  rooms_.caches.fold(rooms_.counters);
  GroupAmounts total{};
  GroupAmounts live{};
  GroupAmounts pending{};
  stats.hits = stats.misses = 0;
  rooms_.caches.for_each_locked([&](const ThreadCache& cache) {
    for (size_t g = 0; g < kGroups; ++g) {
      total[g] += cache.counters.total()[g];
      live[g] += cache.counters.live()[g];
      pending[g] += cache.counters.pending()[g];
    }
    stats.hits += cache.counters.mallocs() - cache.counters.misses;
    stats.misses += cache.counters.misses;
  });
  const auto group = [&](SizeGroup which) {
    const auto at = static_cast<size_t>(index_of(which));
    return group_of_stats(total[at], live[at], pending[at], rooms_.counters.peak(which),
                          rooms_.ledger.reserved(which), rooms_.ledger.chunks(which));
  };
  stats.small = group(SizeGroup::small);
  stats.large = group(SizeGroup::large);
  stats.all = group_of_stats(total[0] + total[1], live[0] + live[1], pending[0] + pending[1],
                             rooms_.counters.peak_all(), rooms_.ledger.reserved(), rooms_.ledger.chunks());
  const Budget& budget = rooms_.ledger.budget();
  stats.device = rooms_.device.info().ordinal;
  stats.limit_bytes = budget.own_limit() == Budget::kNone ? 0 : budget.own_limit();
  if (const Neighbours* neighbours = rooms_.company.neighbours; neighbours != nullptr) {
    stats.share_state = GPUPOOL_SHARE_STATE_SHARED;
    stats.share_slot = neighbours->member().slot();
    stats.share_given_bytes = neighbours->member().given();
    stats.share_taken_bytes = neighbours->member().taken();
  } else if (rooms_.company.runs_alone) {
    stats.share_state = GPUPOOL_SHARE_STATE_ALONE;
  }
  stats.releasable_bytes = releasable();
  const uint64_t used = stats.all.reserved_bytes.current;
  stats.slack_bytes = rooms_.captures.kept_bytes();
  stats.cached_bytes = used - std::min(used, stats.all.active_bytes.current + stats.slack_bytes);
  stats.driver = calls_of(rooms_.device);
  stats.copy = rooms_.device.total(Call::copy);
  stats.stream = rooms_.device.total(Call::stream);
  rooms_.sleeper.add_stats(stats);
  stats.steals = rooms_.ledger.steals();
  stats.stream_steals = rooms_.ledger.stream_steals();
  stats.retries = rooms_.setbacks.retries;
  stats.oom_handler_calls = rooms_.setbacks.handler_calls;
  stats.failed_mallocs = rooms_.setbacks.failed_mallocs;
  stats.streams = rooms_.streams.count();
  stats.metadata_bytes = rooms_.space.store.bytes() + rooms_.space.map.bytes() + rooms_.caches.bytes() +
                         rooms_.streams.bytes() + rooms_.space.chunks.count() * sizeof(Chunk);
}

void Statistics::reset_peaks() noexcept {
  const Caches::AllLocked locked(rooms_.caches);
  rooms_.counters.reset_peaks(
      [this](auto visit) { rooms_.caches.for_each([&](ThreadCache& cache) { visit(cache.counters); }); });
  rooms_.ledger.reset_peaks();
}

}  // namespace gpupool::internal
