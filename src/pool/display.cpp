// SPDX-License-Identifier: Apache-2.0
#include "pool/display.hpp"

#include <algorithm>
#include <array>

#include "os/clock.hpp"
#include "pool/quiet_lock.hpp"
#include "pool/rooms.hpp"
#include "watch/clock.hpp"
#include "watch/sampler.hpp"
#include "watch/tags.hpp"

namespace gpupool::internal {
namespace {

constexpr uint64_t kShowEvery = 10'000'000;  // ns
/// Looking at all ranges of a thousand streams would take longer than the call that it is part of.
constexpr size_t kMostStreams = 64;
constexpr size_t kMostTags = 64;

}  // namespace

void show_if_due(Display& display) noexcept {
  display.show_if_due();
}

void Display::show_if_due() noexcept {
  if (slot_ == nullptr) return;
  // The kernel's own tick, of a few milliseconds, is cheaper than the exact time, and this is asked often.
  const uint64_t now = os::coarse_ns();
  const bool is_news = rooms_.ledger.reserved().current != shown_reserved_;
  if (is_news || now - shown_at_ >= kShowEvery) show(now);
}

void Display::show_in(shown::Slot* slot) noexcept {
  const QuietLock lock(mutex_, this);
  slot_ = slot;
  shown_at_ = 0;
}

void Display::show_again() noexcept {
  const QuietLock lock(mutex_, this);
  shown_at_ = 0;
}

void Display::show(uint64_t now) noexcept {
  shown_at_ = now;
  shown_reserved_ = rooms_.ledger.reserved().current;
  const DeviceInfo& info = rooms_.device.info();
  const Budget& budget = rooms_.ledger.budget();
  shown::Figures figures{};
  figures.pool = rooms_.id;
  figures.backend = static_cast<uint32_t>(info.backend);
  figures.device = info.ordinal;
  if (rooms_.options.is_child) figures.flags |= shown::kIsChild;
  if (!rooms_.sleeper.is_awake()) figures.flags |= shown::kIsAsleep;
  if (rooms_.company.runs_alone) figures.flags |= shown::kRunsAlone;
  figures.shown_ns = clock_ns();
  shown::set_text(figures.device_id, info.id);
  shown::set_text(figures.name, rooms_.sleeper.current_name());
  figures.device_total = info.total;
  figures.limit = budget.own_limit() == Budget::kNone ? 0 : budget.own_limit();
  if (const Neighbours* group = rooms_.company.neighbours; group != nullptr) {
    const share::Member& member = group->member();
    shown::set_text(figures.group, member.place().group);
    figures.group_limit = member.limit();
    figures.group_used = member.used_by_all();
    figures.given = member.given();
    figures.taken = member.taken();
  }
  figures.reserved = rooms_.ledger.reserved().current;
  figures.reserved_peak = rooms_.ledger.reserved().peak;
  figures.asleep = rooms_.sleeper.asleep_bytes();
  figures.backup = rooms_.sleeper.backup_bytes();
  figures.steals = rooms_.ledger.steals();
  figures.stream_steals = rooms_.ledger.stream_steals();
  figures.retries = rooms_.setbacks.retries;
  figures.failed_mallocs = rooms_.setbacks.failed_mallocs;
  figures.driver_calls = rooms_.device.calls();
  figures.driver_ns = rooms_.device.nanoseconds();
  figures.streams = rooms_.streams.count();
  add_amounts(figures);
  add_ranges(figures);
  if (has_tags()) add_tags(figures);
  shown::write(*slot_, shown::SlotState::pool, figures);
}

/// The peak is what a fold of the counters would find, but without the fold.
void Display::add_amounts(shown::Figures& figures) const noexcept {
  uint64_t reached = 0;
  uint64_t mallocs = 0;
  rooms_.caches.for_each_locked([&](const ThreadCache& cache) {
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
  const uint64_t peak = std::max({rooms_.counters.peak_all().live.allocated, reached, figures.live});
  figures.live_peak = std::min(peak, figures.reserved_peak);
  figures.slack = rooms_.captures.kept_bytes();
  const uint64_t taken = figures.live + figures.pending + figures.slack;
  figures.cached = figures.reserved - std::min(figures.reserved, taken);
}

void Display::add_ranges(shown::Figures& figures) const noexcept {
  size_t looked = 0;
  for (const auto& state : rooms_.streams.all()) {
    if (++looked > kMostStreams) return;
    for (const StreamHeap& heap : state->heaps) {
      figures.free_ranges += heap.hole_bytes();
      figures.largest_free_range = std::max(figures.largest_free_range, heap.largest_hole());
    }
  }
}

/// Adds the largest of the first kMostTags tags that it meets.
void Display::add_tags(shown::Figures& figures) const noexcept {
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
