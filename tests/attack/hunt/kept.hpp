// SPDX-License-Identifier: Apache-2.0
// The patterns in kept.txt: what the searcher has found so far, and which laws the pool keeps by now.
#pragma once

#include <string>
#include <vector>

#include "attack/hunt/laws.hpp"

namespace hunt {

enum class State { holds, fails, drawn };

struct Kept {
  State state;
  Law law;
  double figure;  // of one that fails, when it was kept; of drawn ones, how many broke the law
  Pattern pattern;
  std::string line;
};

/// Throws std::invalid_argument, with the line that was not understood.
std::vector<Kept> read_kept(const std::string& file);

}  // namespace hunt
