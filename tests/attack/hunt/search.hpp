// SPDX-License-Identifier: Apache-2.0
// Looks for patterns that break a law, and makes them short.
#pragma once

#include <functional>
#include <string>
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
  Search(uint64_t seed, Measure measure) : random_(seed), measure_(std::move(measure)) {}

  /// Tries one pattern: any, or one like the worst so far.
  void try_one();

  uint64_t tried() const { return tried_; }
  /// Shrunk; of each kind the worst, and the worst of each law first.
  std::vector<Finding> findings() const;
  /// How many patterns broke each law, by Law.
  const std::array<uint64_t, kLawCount>& broken() const { return broken_; }

 private:
  void keep(const Finding& finding);

  Random random_;
  Measure measure_;
  uint64_t tried_ = 0;
  std::array<uint64_t, kLawCount> broken_{};
  std::vector<Finding> worst_;  // as they were drawn, one for each law at most
  std::vector<Finding> kept_;
};

}  // namespace hunt
