// SPDX-License-Identifier: Apache-2.0
// What no pattern may cost once it has come to rest: figures, and what each may be at most.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "attack/hunt/pattern.hpp"

namespace hunt {

enum Law : size_t {
  kMisses,
  kDriverCalls,
  kDriverTime,
  kReserved,
  kLocks,
  kMean,
  kCached,
  kLongest,
  kFailures,
  kFaults,
  kLawCount
};

struct Figures {
  std::array<double, kLawCount> values{};
  std::array<char, 200> words{};  // of the last fault
};

struct LawText {
  const char* name;
  const char* unit;
  /// What a figure may be at most; infinite where the law says nothing of a pattern.
  double (*bound)(const Pattern&);
  const char* reason;
};

/// By Law.
std::span<const LawText> laws();
/// Throws std::invalid_argument.
Law law_named(const std::string& name);

/// By the host's clock, and not by counts.
inline bool is_time(Law law) {
  return law == kMean || law == kCached || law == kLongest;
}

/// By how many times a pattern's figure is more than it may be; at most 1: the law holds.
double excess(Law law, const Pattern& pattern, const Figures& figures);

}  // namespace hunt
