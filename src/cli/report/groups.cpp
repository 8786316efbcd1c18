// SPDX-License-Identifier: Apache-2.0
#include "cli/report/groups.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "cli/recording/live.hpp"

namespace gpupool::cli {
namespace {

using SiteNumber = std::pair<uint32_t, uint32_t>;  // stack and tag

/// A span of time is as exact as a 200th of the moments; the page of a program with many call sites stays
/// small by longer windows, as each costs some 20 bytes for each site that does something in it.
constexpr size_t kMostWindows = 200;
constexpr size_t kLeastWindows = 20;
constexpr size_t kMostWindowSums = 60'000;

/// The exponent of the least power of two that has room for so many bytes; at least a block's 512.
uint32_t doubling_of(uint64_t bytes) {
  return static_cast<uint32_t>(std::bit_width(std::max<uint64_t>(bytes, 512) - 1));
}

size_t wanted_windows(const Recording& recording, uint64_t pool) {
  std::unordered_set<uint64_t> sites;
  std::unordered_set<uint64_t> sizes;
  for (const Happened& event : recording.events) {
    if (event.pool != pool || (event.kind != Kind::malloc && event.kind != Kind::have)) continue;
    sites.insert(uint64_t{event.stack} << 32 | event.tag);
    sizes.insert(event.bytes);
  }
  const size_t most =
      std::max({sites.size(), sizes.size() / 4, size_t{1}});  // a size has a quarter of the figures
  return std::clamp(kMostWindowSums / most, kLeastWindows, kMostWindows);
}

/// Each ends with a moment, and has at least one event. Between two moments never more is live than at one of
/// them, so a window's peak is one of its moments, that at which it begins included.
std::vector<Window> make_windows(const Timeline& timeline, size_t wanted) {
  std::vector<Window> windows;
  const size_t step = timeline.ns.size() / wanted + 1;
  size_t begin = 0;
  size_t peak = 0;
  uint64_t done = 0;  // events before the window
  for (size_t moment = 0; moment < timeline.ns.size(); ++moment) {
    if (timeline.live[moment] > timeline.live[peak]) peak = moment;
    const bool is_last = moment + 1 == timeline.ns.size();
    if (!is_last && (moment - begin < step || timeline.events[moment] == done)) continue;
    windows.push_back({peak, moment});
    begin = peak = moment;
    done = timeline.events[moment];
  }
  return windows;
}

class Grouper {
 public:
  Grouper(const Recording& recording, uint64_t pool, const Timeline& timeline)
      : recording_(recording), pool_(pool), timeline_(timeline) {}

  Groups run() {
    made_.windows = make_windows(timeline_, wanted_windows(recording_, pool_));
    for (size_t i = 0; i < recording_.events.size(); ++i) {
      if (recording_.events[i].pool == pool_) take(recording_.events[i]);
      pass(i + 1);
    }
    made_.peak_bytes = timeline_.live[timeline_.peak];
    made_.peak_blocks = timeline_.blocks[timeline_.peak];
    made_.peak_ns = timeline_.ns[timeline_.peak];
    finish();
    return std::move(made_);
  }

 private:
  void take(const Happened& event) {
    if (event.kind == Kind::failed) made_.failed.push_back({event.ns, event.bytes, event.tag});
    live_.take(
        event,
        [&](const LiveBlock& block) {
          const Happened& made = *block.made;
          sites_.add({made.stack, made.tag}, made);
          sizes_.add(made.bytes, made);
          doublings_.add(doubling_of(made.bytes), made);
          newest_ = block.number;
          ++made_.mallocs;
        },
        [&](const LiveBlock& block, const Happened& freed) {
          const Happened& made = *block.made;
          const uint64_t life_ns = freed.ns - made.ns;
          const bool is_temporary = newest_ - block.number <= 1;
          sites_.remove({made.stack, made.tag}, made, life_ns, is_temporary);
          sizes_.remove(made.bytes, made, life_ns, is_temporary);
          doublings_.remove(doubling_of(made.bytes), made, life_ns, is_temporary);
          ++made_.frees;
        });
  }

  /// So many events have happened.
  void pass(uint64_t events) {
    const Window& window = made_.windows[window_];
    if (timeline_.events[window.peak] == events) {
      sites_.note_peak();
      sizes_.note_peak();
      doublings_.note_peak();
    }
    if (timeline_.events[window.end] != events || window_ + 1 == made_.windows.size()) return;
    end_window();
    ++window_;
  }

  void end_window() {
    sites_.end_window();
    sizes_.end_window();
    doublings_.end_window();
  }

  void finish() {
    end_window();
    const auto peak = std::find_if(made_.windows.begin(), made_.windows.end(),
                                   [&](const Window& window) { return window.peak == timeline_.peak; });
    const auto peak_window = static_cast<size_t>(peak - made_.windows.begin());
    std::map<SiteNumber, Growth> growths;
    for (const Leak& leak : find_leaks(recording_, pool_)) {
      if (leak.growth) made_.growing.push_back(leak);
      if (leak.of != Leak::Of::site) continue;
      growths[{leak.stack, leak.tag}] = leak.growth;
      made_.end_bytes += leak.bytes;
      made_.end_blocks += leak.blocks;
    }
    sites_.finish(peak_window, [&](const SiteNumber& key, GroupSums sums) {
      made_.sites.push_back({std::move(sums), key.first, key.second, growths[key]});
    });
    sizes_.finish(peak_window, [&](uint64_t size, GroupSums sums) { made_.sizes[size] = std::move(sums); });
    doublings_.finish(peak_window,
                      [&](uint32_t power, GroupSums sums) { made_.doublings[power] = std::move(sums); });
    std::sort(made_.sites.begin(), made_.sites.end(), [](const SiteSums& a, const SiteSums& b) {
      return std::tuple(b.peak_bytes, b.bytes, a.stack, a.tag) <
             std::tuple(a.peak_bytes, a.bytes, b.stack, b.tag);
    });
  }

  const Recording& recording_;
  const uint64_t pool_;
  const Timeline& timeline_;
  size_t window_ = 0;
  uint64_t newest_ = 0;
  LiveBlocks live_;
  Tally<SiteNumber> sites_;
  Tally<uint64_t> sizes_;
  Tally<uint32_t> doublings_;
  Groups made_;
};

}  // namespace

std::vector<const SiteSums*> most_held(const Groups& groups) {
  std::vector<const SiteSums*> sites;
  sites.reserve(groups.sites.size());
  for (const SiteSums& site : groups.sites) sites.push_back(&site);
  if (sites.size() <= kMostRows) return sites;
  std::nth_element(sites.begin(), sites.begin() + kMostRows, sites.end(),
                   [](const SiteSums* a, const SiteSums* b) {
                     const uint64_t held_a = std::max(a->peak_bytes, a->end_bytes);
                     const uint64_t held_b = std::max(b->peak_bytes, b->end_bytes);
                     return held_a != held_b ? held_a > held_b : a->bytes > b->bytes;
                   });
  sites.resize(kMostRows);
  return sites;
}

Groups make_groups(const Recording& recording, uint64_t pool, const Timeline& timeline) {
  return Grouper(recording, pool, timeline).run();
}

}  // namespace gpupool::cli
