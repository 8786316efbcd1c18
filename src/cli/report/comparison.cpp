// SPDX-License-Identifier: Apache-2.0
#include "cli/report/comparison.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace gpupool::cli {
namespace {

using Json = nlohmann::ordered_json;

/// As it is to be matched: a native frame "function+0x35 (module)" has its offset as the line.
Frame matchable(const std::string& text) {
  Frame frame = split_frame(text);
  const size_t plus = frame.function.rfind("+0x");
  if (frame.line != 0 || plus == std::string::npos) return frame;
  const char* const end = frame.function.data() + frame.function.size();
  uint64_t offset = 0;
  const auto [stop, error] = std::from_chars(frame.function.data() + plus + 3, end, offset, 16);
  if (error != std::errc() || stop != end) return frame;
  frame.line = offset;
  frame.function.resize(plus);
  return frame;
}

/// A site of one run that looks for its like in the other.
struct Lone {
  std::string tag;
  ComparedSite site;
  bool is_matched = false;
};

void add_to(Sums& sum, const Sums& more) {
  sum.mallocs += more.mallocs;
  sum.bytes += more.bytes;
  sum.peak_blocks += more.peak_blocks;
  sum.peak_bytes += more.peak_bytes;
  sum.end_blocks += more.end_blocks;
  sum.end_bytes += more.end_bytes;
}

std::vector<Lone> sites_of(const Story& story) {
  const Recording& recording = *story.recording;
  std::vector<Lone> made;
  std::map<std::pair<std::string, std::string>, size_t> places;  // by frame and tag
  for (const SiteSums* const sums : most_held(story.groups)) {
    const std::vector<std::string> frames = frames_of(recording, sums->stack);
    const std::string tag = recording.tag(sums->tag);
    const auto [found, is_new] = places.try_emplace({frames.front(), tag}, made.size());
    if (is_new) {
      std::string path;
      for (const std::string& frame : frames) path += matchable(frame).function + '\n';
      made.push_back({tag, {frames.front(), matchable(frames.front()), std::move(path), {}}});
    }
    add_to(made[found->second].site.sums, *sums);
  }
  return made;
}

/// How little two places of a function look the same: lines between them, and eight for each doubling of the
/// bytes that a malloc asks for.
double far_apart(const ComparedSite& a, const ComparedSite& b) {
  const auto lines =
      static_cast<double>(std::max(a.frame.line, b.frame.line) - std::min(a.frame.line, b.frame.line));
  const auto mean = [](const Sums& sums) {
    return static_cast<double>(sums.bytes) / static_cast<double>(sums.mallocs);
  };
  const bool have_sizes =
      a.sums.bytes != 0 && b.sums.bytes != 0 && a.sums.mallocs != 0 && b.sums.mallocs != 0;
  return lines + (have_sizes ? 8 * std::abs(std::log2(mean(a.sums) / mean(b.sums))) : 0);
}

using Lones = std::vector<Lone*>;

/// Pairs, in the order of lines, that are least far from each other: all of the shorter list have a partner.
std::vector<std::pair<Lone*, Lone*>> align_by_line(Lones shorter, Lones longer) {
  const auto by_line = [](const Lone* a, const Lone* b) {
    return std::tie(a->site.frame.line, a->site.text) < std::tie(b->site.frame.line, b->site.text);
  };
  for (Lones* const list : {&shorter, &longer}) std::sort(list->begin(), list->end(), by_line);
  const size_t spare = longer.size() - shorter.size();
  const size_t columns = spare + 1;
  // least[i * columns + k]: of the first i with partners among the first i + k.
  std::vector<double> least((shorter.size() + 1) * columns, 0);
  for (size_t i = 1; i <= shorter.size(); ++i) {
    for (size_t k = 0; k <= spare; ++k) {
      const double taken =
          least[(i - 1) * columns + k] + far_apart(shorter[i - 1]->site, longer[i + k - 1]->site);
      least[i * columns + k] = k == 0 ? taken : std::min(least[i * columns + k - 1], taken);
    }
  }
  std::vector<std::pair<Lone*, Lone*>> pairs;
  for (size_t i = shorter.size(), k = spare; i > 0; --i) {
    while (k > 0 && least[i * columns + k] == least[i * columns + k - 1]) --k;
    pairs.emplace_back(shorter[i - 1], longer[i + k - 1]);
  }
  return pairs;
}

/// Matches those that have the same key and no partner yet.
template <typename KeyOf>
void match_by(KeyOf key_of, std::array<std::vector<Lone>, 2>& sites, std::vector<SitePair>& pairs) {
  std::map<decltype(key_of(sites[0][0])), std::array<Lones, 2>> groups;
  for (size_t which = 0; which < sites.size(); ++which) {
    for (Lone& lone : sites[which]) {
      if (!lone.is_matched) groups[key_of(lone)][which].push_back(&lone);
    }
  }
  for (auto& [key, group] : groups) {
    const bool is_turned = group[0].size() > group[1].size();
    for (auto [before, after] : align_by_line(group[is_turned ? 1 : 0], group[is_turned ? 0 : 1])) {
      if (is_turned) std::swap(before, after);
      before->is_matched = after->is_matched = true;
      pairs.push_back({after->tag, std::move(before->site), std::move(after->site)});
    }
  }
}

Sums sums_of(const std::optional<ComparedSite>& site) {
  return site ? site->sums : Sums();
}

/// What a figure has become more by; less is below 0.
int64_t more(uint64_t before, uint64_t after) {
  return static_cast<int64_t>(after - before);
}

/// Figures of a site, by their names, from a function of each.
template <typename Of>
Json figures(Of of) {
  return {{"peak_bytes", of(&Sums::peak_bytes)},
          {"peak_blocks", of(&Sums::peak_blocks)},
          {"end_bytes", of(&Sums::end_bytes)},
          {"end_blocks", of(&Sums::end_blocks)},
          {"mallocs", of(&Sums::mallocs)}};
}

Json side_to_json(const std::optional<ComparedSite>& site) {
  if (!site) return {};
  Json made = {{"site", site->text}};
  made.update(figures([&](uint64_t Sums::*figure) { return site->sums.*figure; }));
  return made;
}

Json run_to_json(const Story& story) {
  const size_t sites = story.groups.sites.size();
  return {{"file", story.recording->file},
          {"pool", story.pool},
          {"peak_live_bytes", story.groups.peak_bytes},
          {"peak_reserved_bytes", story.timeline.peak_reserved},
          {"end_live_bytes", story.groups.end_bytes},
          {"fits_bytes", story.fits_bytes ? Json(*story.fits_bytes) : Json()},
          {"mallocs", story.groups.mallocs},
          {"sites_left_out", sites - most_held(story.groups).size()}};
}

}  // namespace

std::vector<SitePair> match_sites(const Story& before, const Story& after) {
  std::array<std::vector<Lone>, 2> sites{sites_of(before), sites_of(after)};
  std::vector<SitePair> pairs;
  match_by(
      [](const Lone& lone) { return std::tuple(lone.site.frame.function, lone.site.frame.file, lone.tag); },
      sites, pairs);
  match_by([](const Lone& lone) { return std::tuple(lone.site.path, lone.tag); }, sites, pairs);
  for (Lone& lone : sites[0]) {
    if (!lone.is_matched) pairs.push_back({lone.tag, std::move(lone.site), std::nullopt});
  }
  for (Lone& lone : sites[1]) {
    if (!lone.is_matched) pairs.push_back({lone.tag, std::nullopt, std::move(lone.site)});
  }
  const auto rank = [](const SitePair& pair) {
    const Sums a = sums_of(pair.before);
    const Sums b = sums_of(pair.after);
    return std::tuple(std::abs(more(a.peak_bytes, b.peak_bytes)), std::abs(more(a.end_bytes, b.end_bytes)),
                      std::max(a.peak_bytes, b.peak_bytes), (pair.after ? pair.after : pair.before)->text);
  };
  std::sort(pairs.begin(), pairs.end(),
            [&](const SitePair& a, const SitePair& b) { return rank(a) > rank(b); });
  return pairs;
}

nlohmann::ordered_json comparison_to_json(const Story& before, const Story& after) {
  Json sites = Json::array();
  for (const SitePair& pair : match_sites(before, after)) {
    const Sums a = sums_of(pair.before);
    const Sums b = sums_of(pair.after);
    sites.push_back({{"tag", pair.tag},
                     {"before", side_to_json(pair.before)},
                     {"after", side_to_json(pair.after)},
                     {"more", figures([&](uint64_t Sums::*figure) { return more(a.*figure, b.*figure); })}});
  }
  return {{"before", run_to_json(before)}, {"after", run_to_json(after)}, {"sites", std::move(sites)}};
}

}  // namespace gpupool::cli
