// SPDX-License-Identifier: Apache-2.0
#include "attack/hunt/search.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "attack/hunt/measure.hpp"

namespace hunt {
namespace {

/// More gains little.
constexpr int kShrinkTries = 100;

double excess_of(const Finding& finding) {
  return excess(finding.law, finding.pattern, finding.figures);
}

/// Simpler values of a key, the simplest first.
std::vector<int64_t> simpler(const Field& field, const Pattern& pattern) {
  static const Pattern usual;
  const int64_t value = pattern.*field.value;
  const int64_t simplest = usual.*field.value;
  if (value == simplest) return {};
  std::vector<int64_t> values{simplest};
  if (!field.words.empty()) return values;
  if (field.value == &Pattern::high) values.push_back(pattern.low);
  if (field.value == &Pattern::limit) {
    for (const int64_t wider : {400, 200, 150, 120, 110}) {
      if (wider > value) values.push_back(wider);
    }
    return values;
  }
  for (const int64_t part : {8, 2}) {
    const int64_t nearer = simplest + (value - simplest) / part;
    if (nearer != simplest && nearer != value) values.push_back(nearer);
  }
  return values;
}

}  // namespace

Finding shrunk(Finding finding, const Measure& measure) {
  const double enough = std::max(1.0, excess_of(finding) / 2);
  int tries = kShrinkTries;
  for (bool goes_on = true; std::exchange(goes_on, false);) {
    for (const Field& field : fields()) {
      for (const int64_t value : simpler(field, finding.pattern)) {
        Pattern tried = finding.pattern;
        tried.*field.value = value;
        tried = made_sound(tried, kMostLive);
        if (tried == finding.pattern) continue;
        if (tries-- == 0) return finding;
        const Finding next{finding.law, tried, measure(tried)};
        if (excess_of(next) <= enough) continue;
        finding = next;
        goes_on = true;
        break;
      }
    }
  }
  return finding;
}

std::string kind_of(const Finding& finding) {
  static const Pattern usual;
  std::string kind = laws()[finding.law].name;
  for (const Field& field : fields()) {
    // How much of them there is makes no other kind.
    static constexpr int64_t Pattern::*kAmounts[] = {&Pattern::seed, &Pattern::low,  &Pattern::high,
                                                     &Pattern::unit, &Pattern::gap,  &Pattern::steps,
                                                     &Pattern::turn, &Pattern::live, &Pattern::sizes};
    if (std::find(std::begin(kAmounts), std::end(kAmounts), field.value) != std::end(kAmounts)) continue;
    if (finding.pattern.*field.value != usual.*field.value) kind += std::string(" ") + field.name;
  }
  return kind;
}

void Search::try_one() {
  const bool is_like_worst = !found_.empty() && random_() % 3 == 0;
  const Pattern pattern =
      is_like_worst
          ? change(
                std::next(found_.begin(), static_cast<ptrdiff_t>(random_() % found_.size()))->second.pattern,
                random_, kMostLive)
          : draw(random_, kMostLive);
  const Figures figures = measure_(pattern);
  ++tried_;
  for (size_t i = 0; i < kLawCount; ++i) {
    const Finding finding{static_cast<Law>(i), pattern, figures};
    if (excess_of(finding) <= 1) continue;
    ++broken_[i];
    const auto [same, is_new] = found_.try_emplace(kind_of(finding), finding);
    if (is_new || excess_of(same->second) < excess_of(finding)) same->second = finding;
  }
}

bool Search::shrink_one() {
  // The worst of the law that has had the fewest turns.
  auto next = found_.end();
  const auto is_before = [&](const Finding& a, const Finding& b) {
    return std::pair(turns_[a.law], -excess_of(a)) < std::pair(turns_[b.law], -excess_of(b));
  };
  for (auto each = found_.begin(); each != found_.end(); ++each) {
    if (next == found_.end() || is_before(each->second, next->second)) next = each;
  }
  if (next == found_.end()) return false;
  const Finding small = shrunk(next->second, measure_);
  found_.erase(next);
  ++turns_[small.law];
  const auto [same, is_new] = kept_.try_emplace(kind_of(small), small);
  if (!is_new && excess_of(same->second) >= excess_of(small)) return true;
  same->second = small;
  tell_(small);
  return true;
}

std::vector<Finding> Search::findings() const {
  std::vector<Finding> sorted;
  sorted.reserve(kept_.size());
  for (const auto& [kind, finding] : kept_) sorted.push_back(finding);
  std::sort(sorted.begin(), sorted.end(), [](const Finding& a, const Finding& b) {
    return std::pair(a.law, -excess_of(a)) < std::pair(b.law, -excess_of(b));
  });
  return sorted;
}

}  // namespace hunt
