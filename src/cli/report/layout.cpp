// SPDX-License-Identifier: Apache-2.0
#include "cli/report/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "cli/base/size.hpp"

namespace gpupool::cli {
namespace {

constexpr size_t kMapColumns = 320;
constexpr size_t kRows = 160;
constexpr size_t kMostMoments = 12;
/// Of one moment: what a page can show, and a file hold.
constexpr size_t kMostBlocks = 3000;
constexpr size_t kMostChunks = 3000;

/// What was ever backed, without gaps between neighbours.
std::vector<BackedPart> find_parts(const Recording& recording, uint64_t pool) {
  std::map<uint64_t, uint64_t> ends;  // by begin
  for (const Happened& event : recording.events) {
    if (event.pool != pool || event.kind != Kind::map) continue;
    uint64_t& end = ends[event.address];
    end = std::max(end, event.address + event.bytes);
  }
  std::vector<BackedPart> parts;
  for (const auto& [begin, end] : ends) {
    if (!parts.empty() && begin <= parts.back().begin + parts.back().bytes) {
      parts.back().bytes = std::max(parts.back().bytes, end - parts.back().begin);
    } else {
      parts.push_back({begin, end - begin});
    }
  }
  return parts;
}

/// Draws the moments into the grid, one after another.
class GridPainter {
 public:
  GridPainter(const Recording& recording, uint64_t pool, const GroupedBytes& by_tag) : recording_(recording) {
    grid_.parts = find_parts(recording, pool);
    for (const BackedPart& part : grid_.parts) {
      begins_.push_back(grid_.bytes);
      grid_.bytes += part.bytes;
    }
    grid_.rows = grid_.bytes == 0 ? 0 : kRows;
    for (size_t i = 0; i < by_tag.names.size(); ++i) tag_places_.emplace(by_tag.names[i], i);
    others_ = by_tag.names.empty() ? 0 : by_tag.names.size() - 1;
    tag_count_ = by_tag.names.size();
  }

  void add_column(uint64_t ns, const PoolWalk& walk) {
    grid_.ns.push_back(ns);
    grid_.largest_free.push_back(walk.largest_free());
    backed_.assign(grid_.rows, 0);
    live_.assign(grid_.rows, 0);
    by_tag_.assign(grid_.rows * tag_count_, 0);
    for (const auto& [address, chunk] : walk.chunks()) {
      spread(address, chunk.bytes, [&](size_t row, double bytes) { backed_[row] += bytes; });
    }
    for (const auto& [address, block] : walk.blocks()) {
      const size_t tag = place_of(block.made->tag);
      spread(address, rounded(block.made->bytes), [&](size_t row, double bytes) {
        live_[row] += bytes;
        by_tag_[row * tag_count_ + tag] += bytes;
      });
    }
    write_column();
  }

  AddressGrid finish() { return std::move(grid_); }

 private:
  size_t place_of(uint16_t tag) {
    const auto [known, is_new] = known_tags_.try_emplace(tag, others_);
    if (is_new) {
      const auto found = tag_places_.find(tag == 0 ? "no tag" : recording_.tag(tag));
      if (found != tag_places_.end()) known->second = found->second;
    }
    return known->second;
  }

  /// Calls use(row, bytes) for each row that [address, address + bytes) lies in.
  template <typename Use>
  void spread(uint64_t address, uint64_t bytes, Use use) const {
    auto part = std::upper_bound(grid_.parts.begin(), grid_.parts.end(), address,
                                 [](uint64_t wanted, const BackedPart& p) { return wanted < p.begin; });
    if (part == grid_.parts.begin()) return;
    --part;
    const uint64_t within = address - part->begin;
    if (within >= part->bytes) return;
    const double per_row = static_cast<double>(grid_.bytes) / static_cast<double>(grid_.rows);
    const auto place = static_cast<double>(begins_[static_cast<size_t>(part - grid_.parts.begin())] + within);
    double at = place / per_row;
    const double end = at + static_cast<double>(std::min(bytes, part->bytes - within)) / per_row;
    for (auto row = static_cast<size_t>(at); row < grid_.rows && at < end; ++row) {
      const double next = std::min(end, static_cast<double>(row + 1));
      use(row, (next - at) * per_row);
      at = next;
    }
  }

  void write_column() {
    std::string fill(grid_.rows, ' ');
    std::string tags(grid_.rows, ' ');
    for (size_t row = 0; row < grid_.rows; ++row) {
      if (backed_[row] < 1) continue;
      const double share = std::clamp(live_[row] / backed_[row], 0.0, 1.0);
      // What is live is seen, however little it is; and what is free too.
      const int level = share <= 0 ? 0 : share >= 1 ? 9 : std::clamp(static_cast<int>(share * 9), 1, 8);
      fill[row] = static_cast<char>('0' + level);
      const auto begin = by_tag_.begin() + static_cast<std::ptrdiff_t>(row * tag_count_);
      const auto most = std::max_element(begin, begin + static_cast<std::ptrdiff_t>(tag_count_));
      if (level != 0) tags[row] = static_cast<char>('A' + (most - begin));
    }
    grid_.fill.push_back(std::move(fill));
    grid_.tags.push_back(std::move(tags));
  }

  const Recording& recording_;
  AddressGrid grid_;
  std::vector<uint64_t> begins_;  // of each part, within the map
  std::unordered_map<std::string, size_t> tag_places_;
  std::unordered_map<uint16_t, size_t> known_tags_;
  size_t others_ = 0;
  size_t tag_count_ = 0;
  std::vector<double> backed_;
  std::vector<double> live_;
  std::vector<double> by_tag_;
};

Moment moment_of(std::string name, uint64_t ns, const PoolWalk& walk) {
  Moment moment;
  moment.name = std::move(name);
  moment.ns = ns;
  moment.live = walk.live_bytes();
  moment.reserved = walk.reserved_bytes();
  for (const auto& [address, chunk] : walk.chunks()) {
    if (moment.chunks.size() == kMostChunks) break;
    moment.chunks.push_back({address, chunk.bytes, chunk.stream, chunk.live_bytes, chunk.users});
  }
  moment.chunks_left_out = walk.chunks().size() - moment.chunks.size();
  for (const auto& [address, block] : walk.blocks()) {
    const Happened& made = *block.made;
    moment.blocks.push_back({address, made.bytes, made.ns, made.stack, made.tag, made.thread});
  }
  if (moment.blocks.size() > kMostBlocks) {
    moment.left_out = moment.blocks.size() - kMostBlocks;
    std::nth_element(moment.blocks.begin(), moment.blocks.begin() + kMostBlocks, moment.blocks.end(),
                     [](const ShownBlock& a, const ShownBlock& b) { return a.bytes > b.bytes; });
    moment.blocks.resize(kMostBlocks);
    std::sort(moment.blocks.begin(), moment.blocks.end(),
              [](const ShownBlock& a, const ShownBlock& b) { return a.address < b.address; });
  }
  return moment;
}

/// Which moments are shown exactly, by how many events have happened: the peak, the end, the first failures
/// and some of the marks.
std::map<uint64_t, std::string> choose_moments(const Recording& recording, uint64_t pool,
                                               const Timeline& timeline) {
  constexpr size_t kMostFailures = 3;
  std::map<uint64_t, std::string> chosen;
  chosen.emplace(timeline.events[timeline.peak], "at the peak");
  chosen.emplace(recording.events.size(), "at the end");
  std::vector<std::pair<uint64_t, std::string>> marks;
  size_t failures = 0;
  for (uint64_t i = 0; i < recording.events.size(); ++i) {
    const Happened& event = recording.events[i];
    if (event.kind == Kind::mark) marks.emplace_back(i + 1, one_line(recording.marks[event.bytes], 80));
    if (event.kind != Kind::failed || event.pool != pool || failures == kMostFailures) continue;
    ++failures;
    chosen.emplace(i + 1, fmt::format("when {} could not be had", format_bytes(event.bytes)));
  }
  const size_t room = kMostMoments - chosen.size();
  const size_t step = marks.size() / room + 1;
  for (size_t i = 0; i < marks.size(); i += step) {
    chosen.emplace(marks[i].first, fmt::format("at the mark \"{}\"", marks[i].second));
  }
  return chosen;
}

/// The moments of the timeline that become columns: its peak is one.
std::map<uint64_t, uint64_t> choose_columns(const Timeline& timeline) {
  std::map<uint64_t, uint64_t> chosen;  // time, by how many events have happened
  const size_t count = timeline.ns.size();
  for (size_t i = 0; i < std::min(kMapColumns, count); ++i) {
    const size_t at = i * count / std::min(kMapColumns, count);
    chosen.emplace(timeline.events[at], timeline.ns[at]);
  }
  chosen.emplace(timeline.events[timeline.peak], timeline.ns[timeline.peak]);
  chosen.emplace(timeline.events.back(), timeline.ns.back());
  return chosen;
}

}  // namespace

Layout make_layout(const Recording& recording, uint64_t pool, const Timeline& timeline) {
  Layout made;
  if (timeline.ns.empty()) return made;
  const auto moments = choose_moments(recording, pool, timeline);
  const auto columns = choose_columns(timeline);
  GridPainter painter(recording, pool, timeline.groups.front());
  PoolWalk walk(pool);
  for (uint64_t i = 0; i <= recording.events.size(); ++i) {
    if (const auto column = columns.find(i); column != columns.end()) {
      painter.add_column(column->second, walk);
    }
    if (const auto moment = moments.find(i); moment != moments.end()) {
      made.moments.push_back(moment_of(moment->second, i == 0 ? 0 : recording.events[i - 1].ns, walk));
    }
    if (i < recording.events.size()) walk.take(recording.events[i]);
  }
  made.grid = painter.finish();
  return made;
}

}  // namespace gpupool::cli
