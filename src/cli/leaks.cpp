// SPDX-License-Identifier: Apache-2.0
// What is live at the end of a recording, and what grows.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/library.hpp"
#include "cli/live.hpp"
#include "cli/output.hpp"
#include "cli/size.hpp"
#include "cli/watch_commands.hpp"

namespace gpupool::cli {
namespace {

/// Live blocks of one call site under one tag.
struct Site {
  uint32_t stack = 0;
  uint32_t tag = 0;
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  uint64_t first_ns = 0;           // when the oldest that is live at the end was allocated
  std::vector<uint64_t> at_marks;  // bytes, at the marks since the first malloc of this site
  uint64_t bytes_per_mark = 0;     // 0: does not grow
};

using SiteKey = std::pair<uint32_t, uint32_t>;

/// Bytes that a site gains from mark to mark: it must have risen in most of the last half of the marks, of
/// which there must be some, and hardly ever have fallen. The first half may be a program's start.
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

std::vector<Site> find_sites(const Recording& recording) {
  std::map<SiteKey, Site> sites;
  LiveBlocks live;
  const auto site_of = [&](const Happened& made) -> Site& {
    Site& site = sites[{made.stack, made.tag}];
    site.stack = made.stack;
    site.tag = made.tag;
    return site;
  };
  for (const Happened& event : recording.events) {
    if (event.kind == Kind::mark) {
      for (auto& [key, site] : sites) site.at_marks.push_back(site.bytes);
    }
    live.take(
        event,
        [&](const LiveBlock& block) {
          Site& site = site_of(*block.made);
          site.bytes += rounded(block.made->bytes);
          ++site.blocks;
        },
        [&](const LiveBlock& block, const Happened&) {
          Site& site = site_of(*block.made);
          site.bytes -= rounded(block.made->bytes);
          --site.blocks;
        });
  }
  for (const auto& [key, block] : live.all()) {
    Site& site = site_of(*block.made);
    site.first_ns = site.first_ns == 0 ? block.made->ns : std::min(site.first_ns, block.made->ns);
  }
  std::vector<Site> found;
  for (auto& [key, site] : sites) {
    if (site.blocks == 0) continue;
    site.bytes_per_mark = growth_of(site.at_marks);
    found.push_back(std::move(site));
  }
  std::sort(found.begin(), found.end(), [](const Site& a, const Site& b) {
    return std::pair(a.bytes_per_mark, a.bytes) > std::pair(b.bytes_per_mark, b.bytes);
  });
  return found;
}

void print_table(const Recording& recording, const std::vector<Site>& sites, size_t count) {
  using Align = Table::Align;
  Table table(
      {{"bytes"}, {"blocks"}, {"a mark"}, {"since"}, {"tag", Align::left}, {"call site", Align::left}});
  for (size_t i = 0; i < std::min(count, sites.size()); ++i) {
    const Site& site = sites[i];
    table.add({format_bytes(site.bytes), std::to_string(site.blocks),
               site.bytes_per_mark == 0 ? "" : "+" + format_bytes(site.bytes_per_mark),
               fmt::format("{:.3f} s", static_cast<double>(site.first_ns) / 1e9), recording.tag(site.tag),
               recording.site(site.stack)});
  }
  table.print();
}

}  // namespace

int run_leaks(const LeaksOptions& options) {
  uint64_t allowed = 0;
  if (!options.fail_over.empty() && options.fail_over != "0") {
    allowed = parse_bytes(options.fail_over, "--fail-over");
  }
  const Recording recording = read_recording(options.file);
  std::vector<Site> sites = find_sites(recording);
  if (options.growing) std::erase_if(sites, [](const Site& site) { return site.bytes_per_mark == 0; });
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  for (const Site& site : sites) {
    bytes += site.bytes;
    blocks += site.blocks;
  }
  if (options.json) {
    for (size_t i = 0; i < std::min(options.count, sites.size()); ++i) {
      const Site& site = sites[i];
      const auto stack = recording.stacks.find(site.stack);
      print_json({{"bytes", site.bytes},
                  {"blocks", site.blocks},
                  {"bytes_per_mark", site.bytes_per_mark},
                  {"since_ns", site.first_ns},
                  {"tag", recording.tag(site.tag)},
                  {"stack", stack != recording.stacks.end() ? stack->second : ""}});
    }
  } else if (sites.empty()) {
    fmt::print("{}\n", options.growing ? "Nothing grows from mark to mark." : "Nothing is live at the end.");
  } else {
    fmt::print("{} in {} blocks {} at the end of {}{}.\n", format_bytes(bytes), blocks,
               options.growing ? "of what grows are live" : "are live", recording.file,
               recording.is_ended ? "" : ", which is not the program's own end: it was killed");
    print_table(recording, sites, options.count);
  }
  return !options.fail_over.empty() && bytes > allowed ? 1 : 0;
}

}  // namespace gpupool::cli
