// SPDX-License-Identifier: Apache-2.0
// What other processes, such as `gpupool top`, see of a pool. Whoever gives up the pool's lock writes it: at
// once if the reserved bytes differ from those shown, since changing them has cost driver calls anyway, and
// else at most every 10 ms. What threads do with their caches alone takes no such lock, and is shown with the
// next call that does.
#include <algorithm>

#include "os/clock.hpp"
#include "pool/pool.hpp"
#include "watch/clock.hpp"

namespace gpupool::internal {
namespace {

constexpr uint64_t kShowEvery = 10'000'000;  // ns
/// Looking at all ranges of a thousand streams would take longer than the call that it is part of.
constexpr size_t kMostStreams = 64;
constexpr size_t kMostTags = 64;

}  // namespace

void show_if_due(Pool& pool) noexcept {
  if (pool.slot_ == nullptr) return;
  // The kernel's own tick, of a few milliseconds, is cheaper than the exact time, and this is asked often.
  const uint64_t now = os::coarse_ns();
  const bool is_news = pool.ledger_.reserved().current != pool.shown_reserved_;
  if (is_news || now - pool.shown_at_ >= kShowEvery) pool.show(now);
}

void Pool::show_in(shown::Slot* slot) noexcept {
  const Lock lock(mutex_, this);
  slot_ = slot;
  shown_at_ = 0;
}

void Pool::show_again() noexcept {
  const Lock lock(mutex_, this);
  shown_at_ = 0;
}

void Pool::show(uint64_t now) noexcept {
  shown_at_ = now;
  shown_reserved_ = ledger_.reserved().current;
  const DeviceInfo& info = device_.info();
  const Budget& budget = ledger_.budget();
  shown::Figures figures{};
  figures.pool = id_;
  figures.backend = static_cast<uint32_t>(info.backend);
  figures.device = info.ordinal;
  if (options_.is_child) figures.flags |= shown::kIsChild;
  if (!sleeper_.is_awake()) figures.flags |= shown::kIsAsleep;
  if (runs_alone_) figures.flags |= shown::kRunsAlone;
  figures.shown_ns = clock_ns();
  shown::set_text(figures.device_id, info.id);
  shown::set_text(figures.name, sleeper_.current_name());
  figures.device_total = info.total;
  figures.limit = budget.own_limit() == Budget::kNone ? 0 : budget.own_limit();
  if (neighbours_ != nullptr) {
    const share::Member& member = neighbours_->member();
    shown::set_text(figures.group, member.place().group);
    figures.group_limit = member.limit();
    figures.group_used = member.used_by_all();
    figures.given = member.given();
    figures.taken = member.taken();
  }
  figures.reserved = ledger_.reserved().current;
  figures.reserved_peak = ledger_.reserved().peak;
  figures.asleep = sleeper_.asleep_bytes();
  figures.backup = sleeper_.backup_bytes();
  figures.steals = ledger_.steals();
  figures.stream_steals = ledger_.stream_steals();
  figures.retries = retries_;
  figures.failed_mallocs = failed_mallocs_;
  figures.driver_calls = device_.calls();
  figures.driver_ns = device_.nanoseconds();
  figures.streams = streams_.count();
  add_amounts(figures);
  add_ranges(figures);
  if (has_tags()) add_tags(figures);
  shown::write(*slot_, shown::SlotState::pool, figures);
}

/// The peak is what a fold of the counters would find, but without the fold.
void Pool::add_amounts(shown::Figures& figures) noexcept {
  uint64_t reached = 0;
  uint64_t mallocs = 0;
  caches_.for_each_locked([&](const ThreadCache& cache) {
    const CounterShard& counters = cache.counters;
    const Amounts pending = counters.pending()[0] + counters.pending()[1];
    figures.live += counters.live_bytes();
    figures.live_blocks += counters.live()[0].blocks + counters.live()[1].blocks;
    figures.pending += pending.allocated;
    figures.pending_blocks += pending.blocks;
    figures.misses += counters.misses;
    mallocs += counters.mallocs();
    reached += counters.most_live_bytes();
  });
  figures.hits = mallocs - figures.misses;
  const uint64_t peak = std::max({counters_.peak_all().live.allocated, reached, figures.live});
  figures.live_peak = std::min(peak, figures.reserved_peak);
  figures.slack = kept_by_captures();
  const uint64_t taken = figures.live + figures.pending + figures.slack;
  figures.cached = figures.reserved - std::min(figures.reserved, taken);
}

void Pool::add_ranges(shown::Figures& figures) const noexcept {
  size_t looked = 0;
  for (const auto& state : streams_.all()) {
    if (++looked > kMostStreams) return;
    for (const StreamHeap& heap : state->heaps) {
      figures.free_ranges += heap.hole_bytes();
      figures.largest_free_range = std::max(figures.largest_free_range, heap.largest_hole());
    }
  }
}

/// Adds the largest of the first kMostTags tags that it meets.
void Pool::add_tags(shown::Figures& figures) const noexcept {
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
    found->bytes += sample.weight;
  });
  const auto end = sums.begin() + static_cast<std::ptrdiff_t>(count);
  std::sort(sums.begin(), end, [](const Sum& a, const Sum& b) { return a.bytes > b.bytes; });
  figures.tag_count = static_cast<uint32_t>(std::min(count, shown::kTags));
  for (size_t at = 0; at < figures.tag_count; ++at) {
    shown::set_text(figures.tags[at].name, tag_name(sums[at].tag));
    figures.tags[at].bytes = sums[at].bytes;
  }
}

}  // namespace gpupool::internal
