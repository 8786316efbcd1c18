// SPDX-License-Identifier: Apache-2.0
#include "attack/hunt/search.hpp"

#include <algorithm>
#include <utility>

#include "attack/hunt/measure.hpp"

namespace hunt {
namespace {

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
  if (field.value == &Pattern::limit) return {0, 400, 200, 150, 120, 110};
  for (const int64_t part : {8, 2}) {
    const int64_t nearer = simplest + (value - simplest) / part;
    if (nearer != simplest && nearer != value) values.push_back(nearer);
  }
  return values;
}

}  // namespace

Finding shrunk(Finding finding, const Measure& measure) {
  const double enough = std::max(1.0, excess_of(finding) / 2);
  for (bool goes_on = true; std::exchange(goes_on, false);) {
    for (const Field& field : fields()) {
      for (const int64_t value : simpler(field, finding.pattern)) {
        Pattern tried = finding.pattern;
        tried.*field.value = value;
        tried = made_sound(tried, kMostLive);
        if (tried == finding.pattern) continue;
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
  const bool is_like_worst = !worst_.empty() && random_() % 3 == 0;
  const Pattern pattern = is_like_worst
                              ? change(worst_[random_() % worst_.size()].pattern, random_, kMostLive)
                              : draw(random_, kMostLive);
  const Figures figures = measure_(pattern);
  ++tried_;
  for (size_t i = 0; i < kLawCount; ++i) {
    const Finding finding{static_cast<Law>(i), pattern, figures};
    if (excess_of(finding) <= 1) continue;
    ++broken_[i];
    keep(finding);
  }
}

void Search::keep(const Finding& finding) {
  const auto worst = std::find_if(worst_.begin(), worst_.end(),
                                  [&](const Finding& each) { return each.law == finding.law; });
  const bool is_worst = worst == worst_.end() || excess_of(*worst) < excess_of(finding);
  if (worst == worst_.end()) {
    worst_.push_back(finding);
  } else if (is_worst) {
    *worst = finding;
  }
  // Shrinking takes a hundred times as long as trying: the worst, and some of the others.
  if (!is_worst && random_() % broken_[finding.law] > 4) return;
  const Finding small = shrunk(finding, measure_);
  const auto same = std::find_if(kept_.begin(), kept_.end(),
                                 [&](const Finding& each) { return kind_of(each) == kind_of(small); });
  if (same == kept_.end()) {
    kept_.push_back(small);
  } else if (excess_of(*same) < excess_of(small)) {
    *same = small;
  }
}

std::vector<Finding> Search::findings() const {
  std::vector<Finding> sorted = kept_;
  std::sort(sorted.begin(), sorted.end(), [](const Finding& a, const Finding& b) {
    return std::pair(a.law, -excess_of(a)) < std::pair(b.law, -excess_of(b));
  });
  return sorted;
}

}  // namespace hunt
