// SPDX-License-Identifier: Apache-2.0
#include "cli/report/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "cli/base/size.hpp"

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

void add_to(Sums& sum, const Sums& more) {
  sum.mallocs += more.mallocs;
  sum.bytes += more.bytes;
  sum.peak_blocks += more.peak_blocks;
  sum.peak_bytes += more.peak_bytes;
  sum.end_blocks += more.end_blocks;
  sum.end_bytes += more.end_bytes;
}

/// Its functions, without those that are there already.
std::vector<std::string> path_of(const std::vector<std::string>& frames) {
  std::vector<std::string> path;
  std::unordered_set<std::string> known;
  for (const std::string& frame : frames) {
    std::string function = matchable(frame).function;
    if (known.insert(function).second) path.push_back(std::move(function));
  }
  return path;
}

std::vector<ComparedSite> sites_of(const Story& story, const std::vector<const SiteSums*>& shown) {
  const Recording& recording = *story.recording;
  std::vector<ComparedSite> made;
  std::map<std::pair<std::string, std::string>, size_t> places;  // by frame and tag
  for (const SiteSums* const sums : shown) {
    const std::vector<std::string> frames = frames_of(recording, sums->stack);
    const std::string tag = recording.tag(sums->tag);
    const auto [found, is_new] = places.try_emplace({frames.front(), tag}, made.size());
    if (is_new) {
      made.push_back({tag, frames.front(), matchable(frames.front()), path_of(frames), {}});
    }
    add_to(made[found->second].sums, *sums);
  }
  return made;
}

/// How many functions are between the begin and the end that two stacks have in common.
size_t functions_apart(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto& [shorter, longer] = a.size() < b.size() ? std::tie(a, b) : std::tie(b, a);
  const auto [begin, unused] = std::mismatch(shorter.begin(), shorter.end(), longer.begin());
  const std::reverse_iterator until(begin);
  const auto [end, unused2] = std::mismatch(shorter.rbegin(), until, longer.rbegin());
  return longer.size() - static_cast<size_t>((begin - shorter.begin()) + (end - shorter.rbegin()));
}

/// How little two places look the same: lines between them, and eight for each doubling of the bytes that a
/// malloc asks for, and for each function of the stack.
double far_apart(const ComparedSite& a, const ComparedSite& b) {
  const auto lines =
      static_cast<double>(std::max(a.frame.line, b.frame.line) - std::min(a.frame.line, b.frame.line));
  const auto mean = [](const Sums& sums) {
    return static_cast<double>(sums.bytes) / static_cast<double>(sums.mallocs);
  };
  const bool have_sizes =
      a.sums.bytes != 0 && b.sums.bytes != 0 && a.sums.mallocs != 0 && b.sums.mallocs != 0;
  const double doublings = have_sizes ? std::abs(std::log2(mean(a.sums) / mean(b.sums))) : 0;
  return lines + 8 * (doublings + static_cast<double>(functions_apart(a.path, b.path)));
}

/// The last so many names of a path.
std::string_view end_of(std::string_view path, int names) {
  size_t at = path.size();
  while (names-- > 0 && at != 0 && at != std::string_view::npos) at = path.rfind('/', at - 1);
  return at == std::string_view::npos || path.empty() ? path : path.substr(at + 1);
}

using Sites = std::vector<const ComparedSite*>;

/// Pairs in the order of lines that are least far from each other, in which all of the shorter list have a
/// partner; what is too much in the longer one has null.
std::vector<std::pair<const ComparedSite*, const ComparedSite*>> align_by_line(Sites shorter, Sites longer) {
  const auto by_line = [](const ComparedSite* a, const ComparedSite* b) {
    return std::tie(a->frame.line, a->text) < std::tie(b->frame.line, b->text);
  };
  for (Sites* const list : {&shorter, &longer}) std::sort(list->begin(), list->end(), by_line);
  const size_t spare = longer.size() - shorter.size();
  const size_t columns = spare + 1;
  // least[i * columns + k]: of the first i with partners among the first i + k.
  std::vector<double> least((shorter.size() + 1) * columns, 0);
  for (size_t i = 1; i <= shorter.size(); ++i) {
    for (size_t k = 0; k <= spare; ++k) {
      const double taken = least[(i - 1) * columns + k] + far_apart(*shorter[i - 1], *longer[i + k - 1]);
      least[i * columns + k] = k == 0 ? taken : std::min(least[i * columns + k - 1], taken);
    }
  }
  std::vector<std::pair<const ComparedSite*, const ComparedSite*>> pairs;
  for (size_t i = shorter.size(), k = spare; i + k > 0;) {
    const bool is_lone = k > 0 && least[i * columns + k] == least[i * columns + k - 1];
    pairs.emplace_back(is_lone ? nullptr : shorter[i - 1], longer[i + k - 1]);
    --(is_lone ? k : i);
  }
  return pairs;
}

/// Finds a partner for each site in one stage after the other.
class SiteMatcher {
 public:
  explicit SiteMatcher(const PoolPair& pools) {
    const std::array sides{pools.before, pools.after};
    for (size_t which = 0; which < sides.size(); ++which) {
      if (sides[which] == nullptr) continue;
      for (const ComparedSite& site : sides[which]->sites) lone_[which].push_back(&site);
    }
  }

  /// Pairs those that have the same key.
  template <typename KeyOf>
  void match_by(KeyOf key_of) {
    match_by(
        key_of, [](size_t, const ComparedSite&) { return true; }, [](const Sites&) { return true; });
  }

  /// Pairs a function of which nothing has a partner so far with such a one of the other run, if it is in a
  /// file of the same name, all else of their stacks is the same, and no other such function has these
  /// stacks.
  void match_renamed() {
    using Function = std::pair<std::string_view, std::string_view>;
    std::array<std::set<Function>, 2> known;
    for (const auto& [before, after] : pairs_) {
      known[0].emplace(before->frame.function, before->frame.file);
      known[1].emplace(after->frame.function, after->frame.file);
    }
    match_by(
        [](const ComparedSite& site) {
          return std::tuple(end_of(site.frame.file, 1),
                            std::vector<std::string>(site.path.begin() + 1, site.path.end()), site.tag);
        },
        [&](size_t which, const ComparedSite& site) {
          return site.path.size() > 1 && !known[which].contains({site.frame.function, site.frame.file});
        },
        [](const Sites& sites) {
          return std::all_of(sites.begin(), sites.end(), [&](const ComparedSite* site) {
            return site->frame.function == sites[0]->frame.function;
          });
        });
  }

  std::vector<SitePair> finish() {
    for (const ComparedSite* const site : lone_[0]) pairs_.push_back({site, nullptr});
    for (const ComparedSite* const site : lone_[1]) pairs_.push_back({nullptr, site});
    return std::move(pairs_);
  }

 private:
  /// Of those that are wanted; what has a key in one run must fit together.
  template <typename KeyOf, typename IsWanted, typename Fits>
  void match_by(KeyOf key_of, IsWanted is_wanted, Fits fits) {
    std::map<decltype(key_of(*lone_[0][0])), std::array<Sites, 2>> groups;
    for (size_t which = 0; which < lone_.size(); ++which) {
      for (const ComparedSite* const site : std::exchange(lone_[which], {}))
        (is_wanted(which, *site) ? groups[key_of(*site)][which] : lone_[which]).push_back(site);
    }
    for (const auto& [key, group] : groups) {
      if (fits(group[0]) && fits(group[1])) {
        match(group);
        continue;
      }
      for (size_t which = 0; which < lone_.size(); ++which)
        lone_[which].insert(lone_[which].end(), group[which].begin(), group[which].end());
    }
  }

  void match(const std::array<Sites, 2>& group) {
    const size_t longer = group[0].size() > group[1].size() ? 0 : 1;
    for (const auto& [partner, site] : align_by_line(group[1 - longer], group[longer])) {
      if (partner == nullptr)
        lone_[longer].push_back(site);
      else
        pairs_.push_back(longer == 0 ? SitePair{site, partner} : SitePair{partner, site});
    }
  }

  std::array<Sites, 2> lone_;
  std::vector<SitePair> pairs_;
};

Sums sums_of(const ComparedSite* site) {
  return site != nullptr ? site->sums : Sums();
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

Json side_to_json(const ComparedSite* site) {
  if (site == nullptr) return {};
  Json made = {{"site", site->text}};
  made.update(figures([&](uint64_t Sums::*figure) { return site->sums.*figure; }));
  return made;
}

Json run_to_json(const ComparedPool* pool) {
  if (pool == nullptr) return {};
  return {{"file", pool->file},
          {"pool", pool->pool},
          {"peak_live_bytes", pool->peak_live_bytes},
          {"peak_reserved_bytes", pool->peak_reserved_bytes},
          {"end_live_bytes", pool->end_live_bytes},
          {"fits_bytes", pool->fits_bytes ? Json(*pool->fits_bytes) : Json()},
          {"mallocs", pool->mallocs},
          {"sites_left_out", pool->sites_left_out}};
}

}  // namespace

ComparedPool comparable(const Story& story) {
  const Groups& groups = story.groups;
  const std::vector<const SiteSums*> shown = most_held(groups);
  return {story.recording->file,
          story.about.device,
          story.pool,
          groups.peak_bytes,
          story.timeline.peak_reserved,
          groups.end_bytes,
          story.fits_bytes,
          groups.mallocs,
          groups.sites.size() - shown.size(),
          sites_of(story, shown)};
}

std::vector<PoolPair> match_pools(const std::vector<ComparedPool>& before,
                                  const std::vector<ComparedPool>& after) {
  std::vector<PoolPair> pairs;
  pairs.reserve(before.size() + after.size());
  for (const ComparedPool& pool : before) pairs.push_back({&pool, nullptr});
  std::vector<const ComparedPool*> left;
  left.reserve(after.size());
  for (const ComparedPool& pool : after) left.push_back(&pool);
  const auto match = [&](auto are_alike) {
    for (PoolPair& pair : pairs) {
      if (pair.after != nullptr) continue;
      const auto found = std::find_if(
          left.begin(), left.end(), [&](const ComparedPool* pool) { return are_alike(*pair.before, *pool); });
      if (found == left.end()) continue;
      pair.after = *found;
      left.erase(found);
    }
  };
  match([](const auto& a, const auto& b) { return a.device == b.device && a.pool == b.pool; });
  match([](const auto& a, const auto& b) { return a.device == b.device; });
  match([](const auto&, const auto&) { return true; });
  for (const ComparedPool* const pool : left) pairs.push_back({nullptr, pool});
  return pairs;
}

std::vector<SitePair> match_sites(const PoolPair& pools) {
  SiteMatcher matcher(pools);
  using Site = const ComparedSite&;
  matcher.match_by([](Site site) { return std::tie(site.frame.function, site.frame.file, site.tag); });
  for (const int names : {2, 1}) {
    matcher.match_by([names](Site site) {
      return std::tuple(std::string_view(site.frame.function), end_of(site.frame.file, names),
                        std::string_view(site.tag));
    });
  }
  matcher.match_by([](Site site) { return std::tie(site.path, site.tag); });
  matcher.match_renamed();
  std::vector<SitePair> pairs = matcher.finish();
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

std::vector<std::string> tell_difference(const PoolPair& pools) {
  const auto& [before, after] = pools;
  if (before == nullptr || after == nullptr) {
    const ComparedPool& only = before != nullptr ? *before : *after;
    return {fmt::format("Pool {} is in the {} run only; its peak of what is live is {}.", only.pool,
                        before != nullptr ? "first" : "second", format_bytes(only.peak_live_bytes))};
  }
  const auto compare = [](std::string_view what, uint64_t a, uint64_t b) {
    if (a == b) return fmt::format("{} is the same in both: {}.", what, format_bytes(a));
    return fmt::format("{} is {} in the second run and {} in the first: {} {}.", what, format_bytes(b),
                       format_bytes(a), format_bytes(a < b ? b - a : a - b), a < b ? "more" : "less");
  };
  std::vector<std::string> told;
  told.push_back(compare("The peak of what is live", before->peak_live_bytes, after->peak_live_bytes));
  told.push_back(
      compare("The most that the pool held", before->peak_reserved_bytes, after->peak_reserved_bytes));
  told.push_back(compare("What is live at the end", before->end_live_bytes, after->end_live_bytes));
  if (before->fits_bytes && after->fits_bytes) {
    told.push_back(compare("The least limit that it fits under", *before->fits_bytes, *after->fits_bytes));
  }
  return told;
}

nlohmann::ordered_json comparison_to_json(const PoolPair& pools) {
  Json sites = Json::array();
  for (const SitePair& pair : match_sites(pools)) {
    const Sums a = sums_of(pair.before);
    const Sums b = sums_of(pair.after);
    sites.push_back({{"tag", (pair.after ? pair.after : pair.before)->tag},
                     {"before", side_to_json(pair.before)},
                     {"after", side_to_json(pair.after)},
                     {"more", figures([&](uint64_t Sums::*figure) { return more(a.*figure, b.*figure); })}});
  }
  return {{"before", run_to_json(pools.before)},
          {"after", run_to_json(pools.after)},
          {"sites", std::move(sites)}};
}

}  // namespace gpupool::cli
