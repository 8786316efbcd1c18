// SPDX-License-Identifier: Apache-2.0
// What the page's scripts read. Texts become UTF-8 when they are written.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "cli/recording/frame.hpp"
#include "cli/report/story.hpp"

namespace gpupool::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostMarks = 1000;
constexpr size_t kMostFrames = 128;

/// Numbers as differences, in units: short, and quick to read.
Json differences(const std::vector<uint64_t>& values, uint64_t unit) {
  Json list = Json::array();
  int64_t last = 0;
  for (const uint64_t value : values) {
    const auto in_units = static_cast<int64_t>(value / unit);
    list.push_back(in_units - last);
    last = in_units;
  }
  return list;
}

constexpr uint64_t kByteUnit = 512;
constexpr uint64_t kTimeUnit = 1000;

Json to_json(const Timeline& timeline) {
  Json groups = Json::array();
  for (const GroupedBytes& group : timeline.groups) {
    Json values = Json::array();
    for (const auto& bytes : group.by_name) values.push_back(differences(bytes, kByteUnit));
    groups.push_back({{"what", group.what}, {"names", group.names}, {"bytes", std::move(values)}});
  }
  return {{"us", differences(timeline.ns, kTimeUnit)},
          {"events", differences(timeline.events, 1)},
          {"live", differences(timeline.live, kByteUnit)},
          {"reserved", differences(timeline.reserved, kByteUnit)},
          {"idle", differences(timeline.idle, kByteUnit)},
          {"blocks", differences(timeline.blocks, 1)},
          {"peak", timeline.peak},
          {"groups", std::move(groups)}};
}

Json to_json(const AddressGrid& grid) {
  Json parts = Json::array();
  for (const BackedPart& part : grid.parts) parts.push_back({part.begin, part.bytes});
  return {{"us", differences(grid.ns, kTimeUnit)},
          {"rows", grid.rows},
          {"bytes", grid.bytes},
          {"parts", std::move(parts)},
          {"fill", grid.fill},
          {"tags", grid.tags},
          {"largest_free", differences(grid.largest_free, kByteUnit)}};
}

Json to_json(const Moment& moment, const std::unordered_map<uint64_t, size_t>& site_places) {
  Json chunks = Json::array();
  for (const ShownChunk& chunk : moment.chunks) {
    chunks.push_back({chunk.address, chunk.bytes, chunk.stream, chunk.live_bytes, chunk.blocks});
  }
  Json blocks = Json::array();
  for (const ShownBlock& block : moment.blocks) {
    const auto site = site_places.find(uint64_t{block.stack} << 32 | block.tag);
    blocks.push_back({block.address, block.bytes, block.made_ns / kTimeUnit,
                      site != site_places.end() ? static_cast<int64_t>(site->second) : -1, block.thread});
  }
  return {{"name", moment.name},
          {"us", moment.ns / kTimeUnit},
          {"live", moment.live},
          {"reserved", moment.reserved},
          {"chunks", std::move(chunks)},
          {"blocks", std::move(blocks)},
          {"blocks_left_out", moment.left_out},
          {"chunks_left_out", moment.chunks_left_out}};
}

/// Stacks as lists of frames, each frame written once.
class StackTable {
 public:
  explicit StackTable(const Recording& recording) : recording_(recording) {}

  size_t add(uint32_t stack) {
    const auto [found, is_new] = places_.try_emplace(stack, stacks_.size());
    if (is_new) stacks_.push_back(list_frames(stack));
    return found->second;
  }
  /// By the places of their frames.
  Json list_sources(Sources* sources) const {
    Json list = Json::array();
    if (sources == nullptr) return list;
    for (size_t i = 0; i < frames_.size(); ++i) {
      if (const auto found = sources->around(frames_[i].get_ref<const std::string&>())) {
        list.push_back({i, found->first, found->lines});
      }
    }
    return list;
  }
  Json take_frames() { return std::move(frames_); }
  Json take_stacks() { return std::move(stacks_); }

 private:
  Json list_frames(uint32_t stack) {
    Json list = Json::array();
    for (const std::string& text : frames_of(recording_, stack)) {
      if (list.size() == kMostFrames) break;
      const auto [found, is_new] = frame_places_.try_emplace(text, frames_.size());
      if (is_new) frames_.push_back(text);
      list.push_back(found->second);
    }
    return list;
  }

  const Recording& recording_;
  std::unordered_map<uint32_t, size_t> places_;
  std::unordered_map<std::string, size_t> frame_places_;
  Json frames_ = Json::array();
  Json stacks_ = Json::array();
};

/// What each window adds, one behind the other in one list, that of each window led by how far it is behind
/// the one before.
template <typename Figures>
Json windows_to_json(const GroupSums& group, Figures figures) {
  Json list = Json::array();
  size_t last = 0;
  for (const WindowSums& sums : group.windows) {
    list.push_back(sums.window - last);
    last = sums.window;
    for (const uint64_t figure : figures(sums)) list.push_back(figure);
  }
  return list;
}

Json sites_to_json(const Story& story, StackTable& stacks,
                   std::unordered_map<uint64_t, size_t>& site_places) {
  const auto figures = [](const Sums& sums) {
    return std::array{sums.mallocs,
                      sums.bytes / kByteUnit,
                      sums.bytes - sums.requested,
                      sums.peak_blocks,
                      sums.peak_bytes / kByteUnit,
                      sums.end_blocks,
                      sums.end_bytes / kByteUnit,
                      sums.temporary_mallocs,
                      sums.temporary_bytes / kByteUnit,
                      sums.freed,
                      sums.life_ns / kTimeUnit};
  };
  Json rows = Json::array();
  for (const SiteSums* place : most_held(story.groups)) {
    const SiteSums& site = *place;
    site_places.emplace(uint64_t{site.stack} << 32 | site.tag, rows.size());
    rows.push_back({stacks.add(site.stack), story.recording->tag(site.tag), site.mallocs, site.bytes,
                    site.bytes - site.requested, site.peak_blocks, site.peak_bytes, site.end_blocks,
                    site.end_bytes, site.temporary_mallocs, site.temporary_bytes,
                    site.freed == 0 ? 0 : site.life_ns / site.freed / kTimeUnit,
                    site.growth ? std::max(site.growth.bytes, site.end_bytes) : 0,
                    site.growth ? site.growth.words() : "", windows_to_json(site, figures)});
  }
  return rows;
}

Json sizes_to_json(const Groups& groups) {
  std::vector<std::pair<uint64_t, const GroupSums*>> sizes;
  sizes.reserve(groups.sizes.size());
  for (const auto& [size, sums] : groups.sizes) sizes.emplace_back(size, &sums);
  std::sort(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) {
    return a.first * a.second->most_blocks > b.first * b.second->most_blocks;
  });
  const auto figures = [](const Sums& sums) {
    return std::array{sums.mallocs, sums.most_blocks, sums.end_blocks};
  };
  Json rows = Json::array();
  for (size_t i = 0; i < std::min(kMostRows, sizes.size()); ++i) {
    const GroupSums& sums = *sizes[i].second;
    rows.push_back({sizes[i].first, sums.mallocs, sums.most_blocks, windows_to_json(sums, figures)});
  }
  return rows;
}

Json doublings_to_json(const Groups& groups) {
  const auto figures = [](const Sums& sums) {
    return std::array{sums.mallocs, sums.bytes / kByteUnit, sums.peak_bytes / kByteUnit,
                      sums.end_bytes / kByteUnit};
  };
  Json rows = Json::array();
  for (const auto& [power, sums] : groups.doublings) {
    rows.push_back(
        {power, sums.mallocs, sums.bytes, sums.peak_bytes, sums.end_bytes, windows_to_json(sums, figures)});
  }
  return rows;
}

Json marks_to_json(const Recording& recording) {
  std::vector<const Happened*> marks;
  for (const Happened& event : recording.events) {
    if (event.kind == Kind::mark) marks.push_back(&event);
  }
  Json rows = Json::array();
  const size_t step = marks.size() / kMostMarks + 1;
  for (size_t i = 0; i < marks.size(); i += step) {
    rows.push_back({marks[i]->ns / kTimeUnit, one_line(recording.marks[marks[i]->bytes], 100)});
  }
  return rows;
}

}  // namespace

nlohmann::ordered_json to_json(const Story& story) {
  const Recording& recording = *story.recording;
  const Groups& groups = story.groups;
  StackTable stacks(recording);
  std::unordered_map<uint64_t, size_t> site_places;
  Json sites = sites_to_json(story, stacks, site_places);
  Json failed = Json::array();
  for (size_t i = 0; i < std::min(kMostRows, groups.failed.size()); ++i) {
    failed.push_back(
        {groups.failed[i].ns / kTimeUnit, groups.failed[i].bytes, recording.tag(groups.failed[i].tag)});
  }
  Json windows = Json::array();
  for (const Window& window : groups.windows) windows.push_back({window.peak, window.end});
  Json moments = Json::array();
  for (const Moment& moment : story.layout.moments) moments.push_back(to_json(moment, site_places));
  return {{"file", recording.file},
          {"command", one_line(recording.command)},
          {"pid", recording.pid},
          {"library", one_line(recording.library)},
          {"started_ms", recording.start_realtime_ns / 1'000'000},
          {"pool", story.pool},
          {"device", one_line(story.about.device)},
          {"device_name", one_line(story.about.name)},
          {"limit", story.about.limit_bytes},
          {"events", recording.events.size()},
          {"mallocs", groups.mallocs},
          {"frees", groups.frees},
          {"peak_live", groups.peak_bytes},
          {"peak_reserved", story.timeline.peak_reserved},
          {"end_live", groups.end_bytes},
          {"fits", story.fits_bytes ? Json(*story.fits_bytes) : Json()},
          {"timeline", to_json(story.timeline)},
          {"grid", to_json(story.layout.grid)},
          {"moments", std::move(moments)},
          {"sources", stacks.list_sources(story.sources)},
          {"frames", stacks.take_frames()},
          {"stacks", stacks.take_stacks()},
          {"sites", std::move(sites)},
          {"sites_left_out", groups.sites.size() - std::min(groups.sites.size(), kMostRows)},
          {"sizes", sizes_to_json(groups)},
          {"sizes_left_out", groups.sizes.size() - std::min(groups.sizes.size(), kMostRows)},
          {"doublings", doublings_to_json(groups)},
          {"windows", std::move(windows)},
          {"failed", std::move(failed)},
          {"marks", marks_to_json(recording)}};
}

}  // namespace gpupool::cli
