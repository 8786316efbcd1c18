// SPDX-License-Identifier: Apache-2.0
// Statistics, the report in words, and the check of everything.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "base/size_text.hpp"
#include "pool/pool.hpp"
#include "pool/registry.hpp"
#include "pool/snapshot.hpp"

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

/// After fork the driver must not be asked: statistics stay as they were.
bool Pool::handle_is_usable() const noexcept {
  return handle_ != nullptr && handle_->life.load(std::memory_order_acquire) != Life::forked;
}

bool Pool::is_live() const noexcept {
  return handle_ != nullptr && handle_->life.load(std::memory_order_acquire) == Life::live;
}

Amounts Pool::live_amounts() {
  Amounts live;
  caches_.for_each_locked(
      [&](const ThreadCache& cache) { live += cache.counters.live()[0] + cache.counters.live()[1]; });
  return live;
}

Amounts Pool::pending_amounts() {
  Amounts pending;
  caches_.for_each_locked([&](const ThreadCache& cache) {
    pending += cache.counters.pending()[0] + cache.counters.pending()[1];
  });
  return pending;
}

/// What trimming can release: chunks that no block touches, except free blocks in threads' caches. Looks at a
/// bounded number of those, and leaves out the chunks of the others.
uint64_t Pool::releasable() noexcept {
  uint64_t bytes = backing_.bytes_in_hand();
  if (captures_.hold_all() || !sleeper_.is_awake()) return bytes;
  bytes += space_.free_chunks.bytes();
  const Caches::AllLocked locked(caches_);
  visit_cached([&](Chunk* chunk) {
    if (++chunk->cached_users == chunk->users) bytes += chunk->size;
  });
  visit_cached([](Chunk* chunk) { chunk->cached_users = 0; });
  return bytes;
}

/// Calls visit(chunk) for each chunk of each of the first blocks in threads' caches, which are locked.
template <typename Visit>
void Pool::visit_cached(Visit visit) {
  constexpr size_t kBlocks = 1024;
  size_t blocks = 0;
  caches_.for_each([&](ThreadCache& cache) {
    cache.lanes.for_each([&](const Lane& lane) {
      for (const QuickBins& bins : lane.groups) {
        if (blocks >= kBlocks) return;
        bins.for_each([&](const Range* block) {
          if (!heap_of(*block).shares()) return true;
          for_chunks(*block->region, block->address, block->end(), visit);
          return ++blocks < kBlocks;
        });
      }
    });
  });
}

/// Free memory that only the capture it was allocated in may reuse.
uint64_t Pool::kept_by_captures() const noexcept {
  uint64_t bytes = 0;
  streams_.for_each_capture([&](const StreamState& state) {
    for (const StreamHeap& heap : state.heaps) bytes += heap.hole_bytes();
  });
  return bytes;
}

void Pool::stats(gpupool_stats_t& stats) {
  const Lock lock = enter();
  if (handle_is_usable()) settle_pending();
  caches_.fold(counters_);
  GroupAmounts total{};
  GroupAmounts live{};
  GroupAmounts pending{};
  stats.hits = stats.misses = 0;
  caches_.for_each_locked([&](const ThreadCache& cache) {
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
    return group_of_stats(total[at], live[at], pending[at], counters_.peak(which), ledger_.reserved(which),
                          ledger_.chunks(which));
  };
  stats.small = group(SizeGroup::small);
  stats.large = group(SizeGroup::large);
  stats.all = group_of_stats(total[0] + total[1], live[0] + live[1], pending[0] + pending[1],
                             counters_.peak_all(), ledger_.reserved(), ledger_.chunks());
  const Budget& budget = ledger_.budget();
  stats.device = device_.info().ordinal;
  stats.limit_bytes = budget.own_limit() == Budget::kNone ? 0 : budget.own_limit();
  if (neighbours_ != nullptr) {
    stats.share_state = GPUPOOL_SHARE_STATE_SHARED;
    stats.share_slot = neighbours_->member().slot();
    stats.share_given_bytes = neighbours_->member().given();
    stats.share_taken_bytes = neighbours_->member().taken();
  } else if (runs_alone_) {
    stats.share_state = GPUPOOL_SHARE_STATE_ALONE;
  }
  stats.releasable_bytes = releasable();
  const uint64_t used = stats.all.reserved_bytes.current;
  stats.slack_bytes = kept_by_captures();
  stats.cached_bytes = used - std::min(used, stats.all.active_bytes.current + stats.slack_bytes);
  stats.driver = calls_of(device_);
  stats.copy = device_.total(Call::copy);
  stats.stream = device_.total(Call::stream);
  sleeper_.add_stats(stats);
  stats.steals = ledger_.steals();
  stats.stream_steals = ledger_.stream_steals();
  stats.retries = retries_;
  stats.oom_handler_calls = handler_calls_;
  stats.failed_mallocs = failed_mallocs_;
  stats.streams = streams_.count();
  stats.metadata_bytes = space_.store.bytes() + space_.map.bytes() + caches_.bytes() + streams_.bytes() +
                         space_.chunks.count() * sizeof(Chunk);
}

void Pool::reset_peaks() {
  const Lock lock = enter();
  const Caches::AllLocked locked(caches_);
  counters_.reset_peaks(
      [this](auto visit) { caches_.for_each([&](ThreadCache& cache) { visit(cache.counters); }); });
  ledger_.reset_peaks();
}

void Pool::snapshot(std::vector<gpupool_segment_t>& segments, std::vector<gpupool_block_t>& blocks) {
  Snapshot snapshot(space_, device_.info().ordinal);
  {
    Lock lock = enter();
    while (snapshot.step()) lock.give_way();
  }
  segments = snapshot.segments();
  blocks = snapshot.blocks();
}

std::string Pool::report() {
  constexpr size_t kNamed = 10;
  const std::string most = largest_holders(kNamed);
  const Lock lock = enter();
  return report_locked() + (most.empty() ? "" : " Most is held by: " + most + ".");
}

/// How many chunks there are of each size: "3 x 2.00 MiB, 1 x 16.00 MiB". Segments count as the power of two
/// below their size.
std::string Pool::chunks_by_size() const {
  std::string text;
  for (unsigned at = 0; at < Ledger::kSizes; ++at) {
    const uint64_t count = ledger_.chunks_of_size(at);
    if (count != 0)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " x " + size_text(uint64_t{1} << at);
  }
  return text.empty() ? "none" : text;
}

std::string Pool::report_locked() {
  const Amounts live = live_amounts();
  const Amounts pending = pending_amounts();
  const uint64_t used = ledger_.used();
  uint64_t largest = 0;
  for (const auto& state : streams_.all()) {
    for (const StreamHeap& heap : state->heaps) largest = std::max(largest, heap.largest_hole());
  }
  const DeviceInfo& info = device_.info();
  const uint64_t limit = ledger_.budget().own_limit();
  std::string text =
      "Device " + std::to_string(info.ordinal) + " (" + info.name + ") has " + size_text(info.total);
  uint64_t free = 0;
  if (device_.raw().free_memory(free) == kSuccess) {
    text += ", of which " + size_text(free) + " is free";
    const uint64_t taken = info.total - std::min(info.total, free);
    text += " and " + size_text(taken - std::min(taken, used)) + " is held outside this pool";
  }
  text += ". This pool holds " + size_text(used);
  text += limit == Budget::kNone ? std::string(", without a limit") : " of a limit of " + size_text(limit);
  text += family_report() + group_report() + ": ";
  text += size_text(live.allocated) + " in " + std::to_string(live.blocks) + " live blocks (" +
          size_text(live.requested) + " requested), " + size_text(pending.allocated) + " in " +
          std::to_string(pending.blocks) + " freed blocks that wait for streams, " +
          size_text(used - std::min(used, live.allocated + pending.allocated)) + " cached, of which " +
          size_text(releasable()) + " is in chunks that no block touches; the largest free range is " +
          size_text(largest) + ". Chunks: " + chunks_by_size() + ". " + std::to_string(streams_.count()) +
          " streams.";
  if (const uint64_t kept = exports_.kept_bytes(); kept != 0)
    text += " Other processes still use " + size_text(kept) + " in blocks that they imported.";
  sleeper_.describe(text);
  return text;
}

/// What a pool's children hold; for a child, what its parent and the parent's other children hold.
std::string Pool::family_report() const {
  const Budget& budget = ledger_.budget();
  const auto others = budget.shared().use_count() - 1;
  if (others <= 0) return "";
  const std::string held = size_text(budget.used_by_others());
  if (options_.is_child) return ", of which its parent and that one's other child pools hold " + held;
  return ", of which " + std::to_string(others) +
         (others == 1 ? " child pool holds " : " child pools hold ") + held;
}

/// What the group of processes that share the device's memory has, and what is left of it.
std::string Pool::group_report() const {
  if (neighbours_ == nullptr) return runs_alone_ ? ", and shares with nobody, since it runs alone" : "";
  const uint64_t limit = neighbours_->member().limit();
  return ", and shares " + size_text(limit) + " with the group " + neighbours_->member().place().group +
         ", which has " + size_text(neighbours_->room()) + " left";
}

/// Whether the ledger's counts of chunks of each size are right.
bool Pool::is_counted_by_size() const {
  std::array<uint64_t, Ledger::kSizes> counts{};
  const auto count = [&](const Chunk* chunk) {
    if (!chunk->asleep || chunk->handle != 0) ++counts[log2_floor(chunk->size)];
  };
  for (const Region& region : space_.regions) for_each_chunk(region, count);
  backing_.for_each_in_hand(count);
  for (unsigned at = 0; at < Ledger::kSizes; ++at) {
    if (counts[at] != ledger_.chunks_of_size(at)) return false;
  }
  return true;
}

Status Pool::validate() {
  const Lock lock = enter();
  const Caches::AllLocked locked(caches_);
  std::string why;
  uint64_t in_chunks = 0;
  Amounts live;
  Heap::Census found;
  bool good = space_.is_valid(why) && Heap::count(space_, found, why);
  for (const auto& state : streams_.all()) {
    for (const StreamHeap& heap : state->heaps) {
      good = good && heap.is_valid(found, why);
      in_chunks += heap.reserved();
    }
  }
  for (const Region& region : space_.regions) {
    for (const Range* range = region.first; range != nullptr; range = range->next) {
      if (range->is(State::live)) live += {range->requested(), range->size, 1};
    }
  }
  Amounts counted;
  caches_.for_each(
      [&](const ThreadCache& cache) { counted += cache.counters.live()[0] + cache.counters.live()[1]; });
  in_chunks += backing_.bytes_in_hand();
  if (!good) return fail(GPUPOOL_ERROR_INTERNAL, "a heap is inconsistent: %s", why.c_str());
  if (counted != live) return fail(GPUPOOL_ERROR_INTERNAL, "counters differ from the live blocks");
  in_chunks -= sleeper_.asleep_bytes();
  // A pool that wakes is charged all that it needs before it creates the first chunk.
  const bool is_used = sleeper_.is_awake() ? in_chunks == ledger_.used() : in_chunks <= ledger_.used();
  if (options_.vmm && (in_chunks != ledger_.reserved().current || !is_used)) {
    return fail(GPUPOOL_ERROR_INTERNAL, "reserved is %" PRIu64 ", chunks hold %" PRIu64,
                ledger_.reserved().current, in_chunks);
  }
  // A segment on its way from or to the driver is counted, but in no heap.
  if (options_.vmm && !is_counted_by_size())
    return fail(GPUPOOL_ERROR_INTERNAL, "chunks are not counted by their sizes");
  if (!caches_.is_valid()) return fail(GPUPOOL_ERROR_INTERNAL, "a thread's lanes are inconsistent");
  return pending_.is_valid() && exports_.is_valid()
             ? kSuccess
             : fail(GPUPOOL_ERROR_INTERNAL, "a pending block is not pending");
}

}  // namespace gpupool::internal
