// SPDX-License-Identifier: Apache-2.0
// Looks for patterns that break a law, and makes them short.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "attack/hunt/laws.hpp"

namespace hunt {

struct Finding {
  Law law;
  Pattern pattern;
  Figures figures;
};

using Measure = std::function<Figures(const Pattern&)>;

/// The finding with as many keys as can be at their usual values, and the others as small as can be, while
/// the law is still broken, and by half as much as at first.
Finding shrunk(Finding finding, const Measure& measure);

/// What the findings have in common: the law, and which keys matter.
std::string kind_of(const Finding& finding);

class Search {
 public:
  using Tell = std::function<void(const Finding&)>;

  /// Tells of each finding as soon as it is kept.
  Search(uint64_t seed, Measure measure, Tell tell)
      : random_(seed), measure_(std::move(measure)), tell_(std::move(tell)) {}

  /// Tries one pattern: any, or one like those found so far.
  void try_one();
  /// Shrinks one of what was found, if anything is left: it takes as long as trying a hundred.
  bool shrink_one();

  uint64_t tried() const { return tried_; }
  /// Shrunk; of each kind the worst, and the worst of each law first.
  std::vector<Finding> findings() const;
  /// How many patterns broke each law, by Law.
  const std::array<uint64_t, kLawCount>& broken() const { return broken_; }

 private:
  Random random_;
  Measure measure_;
  Tell tell_;
  uint64_t tried_ = 0;
  std::array<uint64_t, kLawCount> broken_{};
  std::array<uint64_t, kLawCount> turns_{};  // of shrinking
  std::map<std::string, Finding> found_;     // as they were drawn, the worst of each kind
  std::map<std::string, Finding> kept_;      // shrunk
};

}  // namespace hunt
