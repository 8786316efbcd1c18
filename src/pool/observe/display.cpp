// SPDX-License-Identifier: Apache-2.0
#include "pool/observe/display.hpp"

#include <algorithm>
#include <array>

#include "os/clock.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/observe/free_ranges.hpp"
#include "pool/request/watcher.hpp"
#include "pool/sleep/sleeper.hpp"
#include "watch/clock.hpp"
#include "watch/sampler.hpp"
#include "watch/tags.hpp"

namespace gpupool::internal {
namespace {

constexpr uint64_t kShowEvery = 10'000'000;  // ns
/// Looking at all ranges of a thousand streams would take longer than the call that it is part of.
constexpr size_t kMostStreams = 64;
constexpr size_t kMostCachedBlocks = 64;  // in caches, whose owners may wait for the look to end
constexpr size_t kMostTags = 64;

}  // namespace

void Display::look() noexcept {
  // A sample with a tag comes here with news; whether marks are drawn anew must not depend on samples.
  if (!pool_.has_news) watcher_.look();
  if (slot_ == nullptr) return;
  // The kernel's own tick, of a few milliseconds, is cheaper than the exact time, and this is asked often.
  const uint64_t now = os::coarse_ns();
  const bool is_news = pool_.has_news || pool_.ledger.reserved().current != shown_reserved_;
  if (is_news || now - shown_at_ >= kShowEvery) show(now);
}

void Display::show_in(wire::stats::Slot* slot) noexcept {
  const PoolLock lock(pool_.mutex, this);
  slot_ = slot;
  pool_.has_news = true;
}

void Display::show(uint64_t now) noexcept {
  pool_.has_news = false;
  shown_at_ = now;
  shown_reserved_ = pool_.ledger.reserved().current;
  const DeviceInfo& info = pool_.device.info();
  const Budget& budget = pool_.ledger.budget();
  wire::stats::Figures figures{};
  wire::stats::Counts& counts = figures.counts;
  figures.pool = pool_.id;
  figures.backend = static_cast<uint32_t>(info.backend);
  figures.device = info.ordinal;
  if (pool_.options.is_child) figures.flags |= wire::stats::kIsChild;
  if (!pool_.gate.is_awake()) figures.flags |= wire::stats::kIsAsleep;
  if (pool_.group.runs_alone) figures.flags |= wire::stats::kRunsAlone;
  figures.shown_ns = clock_ns();
  shown::set_text(figures.device_id, info.id);
  shown::set_text(figures.name, pool_.gate.name);
  counts.device_total = info.total;
  counts.limit = budget.own_limit() == Budget::kNone ? 0 : budget.own_limit();
  if (const GroupLimit* group = pool_.group.limit; group != nullptr) {
    const share::Member& member = group->member();
    shown::set_text(figures.group, member.place().group);
    counts.group_limit = member.limit();
    counts.group_used = member.used_by_all();
    counts.given = member.given();
    counts.taken = member.taken();
  }
  counts.reserved = pool_.ledger.reserved().current;
  counts.reserved_peak = pool_.ledger.reserved().peak;
  counts.asleep = sleeper_.asleep_bytes();
  counts.backup = sleeper_.backup_bytes();
  counts.steals = pool_.ledger.steals();
  counts.stream_steals = pool_.ledger.stream_steals();
  counts.retries = pool_.shortages.retries;
  counts.failed_mallocs = pool_.shortages.failed_mallocs;
  counts.driver_calls = pool_.device.calls();
  counts.driver_ns = pool_.device.nanoseconds();
  counts.streams = pool_.streams.count();
  add_amounts(counts);
  const FreeRanges ranges = FreeRanges::of(pool_, kMostStreams, kMostCachedBlocks);
  counts.free_ranges = ranges.bytes;
  counts.largest_free_range = ranges.largest;
  if (has_tags()) add_tags(figures);
  shown::write(*slot_, wire::stats::SlotState::pool, figures);
}

/// The peak is what a fold of the counters would find, but without the fold.
void Display::add_amounts(wire::stats::Counts& counts) const noexcept {
  uint64_t reached = 0;
  uint64_t mallocs = 0;
  pool_.caches.for_each_locked([&](const ThreadCache& cache) {
    const CounterShard& counters = cache.counters;
    const Amounts pending = counters.pending()[0] + counters.pending()[1];
    counts.live += counters.live_bytes();
    counts.live_blocks += counters.live()[0].blocks + counters.live()[1].blocks;
    counts.pending += pending.allocated;
    counts.pending_blocks += pending.blocks;
    counts.misses += counters.misses;
    mallocs += counters.mallocs();
    reached += counters.most_live_bytes();
  });
  counts.hits = mallocs - counts.misses;
  const uint64_t peak = std::max({pool_.counters.peak_all().live.allocated, reached, counts.live});
  counts.live_peak = std::min(peak, counts.reserved_peak);
  counts.slack = pool_.captures.kept_bytes();
  const uint64_t taken = counts.live + counts.pending + counts.slack;
  counts.cached = counts.reserved - std::min(counts.reserved, taken);
}

/// Adds the largest of the first kMostTags tags that it meets.
void Display::add_tags(wire::stats::Figures& figures) const noexcept {
  struct Sum {
    TagId tag;
    uint64_t bytes;
  };
  std::array<Sum, kMostTags> sums;
  size_t count = 0;
  sampler_.for_each([&](const Sample& sample) {
    if (sample.tag == 0) return;
    const auto end = sums.begin() + static_cast<std::ptrdiff_t>(count);
    const auto found = std::find_if(sums.begin(), end, [&](const Sum& sum) { return sum.tag == sample.tag; });
    if (found == end && count == kMostTags) return;
    if (found == end) sums[count++] = {sample.tag, 0};
    found->bytes += sample.mark.weight;
  });
  const auto end = sums.begin() + static_cast<std::ptrdiff_t>(count);
  std::sort(sums.begin(), end, [](const Sum& a, const Sum& b) { return a.bytes > b.bytes; });
  figures.tag_count = static_cast<uint32_t>(std::min(count, wire::stats::kTags));
  for (size_t at = 0; at < figures.tag_count; ++at) {
    shown::set_text(figures.tags[at].name, tag_name(sums[at].tag));
    figures.tags[at].bytes = sums[at].bytes;
  }
}

}  // namespace gpupool::internal
