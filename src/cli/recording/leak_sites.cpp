// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/leak_sites.hpp"

#include <algorithm>
#include <utility>

#include "cli/recording/live.hpp"

namespace gpupool::cli {
namespace {

using SiteKey = std::pair<uint32_t, uint32_t>;

/// Bytes that a site gains from mark to mark; 0 with few marks. Over the last half of the marks it must
/// mostly have risen, and hardly ever fallen. The first half may be a program's start.
uint64_t growth_of(const std::vector<uint64_t>& at_marks) {
  constexpr size_t kLeastMarks = 6;
  if (at_marks.size() < kLeastMarks) return 0;
  const size_t from = at_marks.size() / 2 - 1;
  size_t risen = 0;
  size_t fallen = 0;
  for (size_t i = from + 1; i < at_marks.size(); ++i) {
    if (at_marks[i] > at_marks[i - 1]) ++risen;
    if (at_marks[i] < at_marks[i - 1]) ++fallen;
  }
  const size_t steps = at_marks.size() - 1 - from;
  if (risen * 2 <= steps || fallen * 10 > steps || at_marks.back() <= at_marks[from]) return 0;
  return (at_marks.back() - at_marks[from]) / steps;
}

}  // namespace

std::vector<LeakSite> find_leak_sites(const Recording& recording, std::optional<uint64_t> pool) {
  std::map<SiteKey, LeakSite> sites;
  LiveBlocks live;
  const auto site_of = [&](const Happened& made) -> LeakSite& {
    LeakSite& site = sites[{made.stack, made.tag}];
    site.stack = made.stack;
    site.tag = made.tag;
    return site;
  };
  for (const Happened& event : recording.events) {
    if (event.kind == Kind::mark) {
      for (auto& [key, site] : sites) site.at_marks.push_back(site.bytes);
    }
    if (pool && event.pool != *pool) continue;
    live.take(
        event,
        [&](const LiveBlock& block) {
          LeakSite& site = site_of(*block.made);
          site.bytes += rounded(block.made->bytes);
          ++site.blocks;
        },
        [&](const LiveBlock& block, const Happened&) {
          LeakSite& site = site_of(*block.made);
          site.bytes -= rounded(block.made->bytes);
          --site.blocks;
        });
  }
  for (const auto& [key, block] : live.all()) {
    LeakSite& site = site_of(*block.made);
    site.first_ns = site.first_ns == 0 ? block.made->ns : std::min(site.first_ns, block.made->ns);
  }
  std::vector<LeakSite> found;
  for (auto& [key, site] : sites) {
    if (site.blocks == 0) continue;
    site.bytes_per_mark = growth_of(site.at_marks);
    found.push_back(std::move(site));
  }
  std::sort(found.begin(), found.end(), [](const LeakSite& a, const LeakSite& b) {
    return std::pair(a.bytes_per_mark, a.bytes) > std::pair(b.bytes_per_mark, b.bytes);
  });
  return found;
}

}  // namespace gpupool::cli
