// SPDX-License-Identifier: Apache-2.0
// Which call sites of two runs are the same, though the program was edited between them, and what they differ
// in.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/recording/frame.hpp"
#include "cli/report/story.hpp"

namespace gpupool::cli {

/// All mallocs of one line of a program under one tag, whoever called it.
struct ComparedSite {
  std::string text;  // the innermost frame
  Frame frame;       // the same in parts; of a native frame, the offset is the line
  std::string path;  // functions of the whole stack
  Sums sums;
};

/// One of the two is missing if the site is in one run only.
struct SitePair {
  std::string tag;
  std::optional<ComparedSite> before;
  std::optional<ComparedSite> after;
};

/// By function, file and tag, then by line and size; where a file has another name, by the functions of the
/// whole stack. What differs most at the peak comes first, then what does at the end, then what is
/// large. Of each run as many sites as the page has.
std::vector<SitePair> match_sites(const Story& before, const Story& after);

/// The comparison for programs.
nlohmann::ordered_json comparison_to_json(const Story& before, const Story& after);

}  // namespace gpupool::cli
