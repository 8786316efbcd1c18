// SPDX-License-Identifier: Apache-2.0
// Which pools and call sites of two runs are the same, though the program was edited between them, and what
// they differ in.
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
  std::string tag;
  std::string text;  // the innermost frame
  Frame frame;       // the same in parts; of a native frame, the offset is the line
  std::vector<std::string>
      path;  // functions of the whole stack, each once: recursion may be deeper elsewhere
  Sums sums;
};

/// What a comparison shows of a pool of one run. It does not need the recording, which may be gone.
struct ComparedPool {
  std::string file;
  std::string device;
  uint64_t pool = 0;
  uint64_t peak_live_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  uint64_t end_live_bytes = 0;
  std::optional<uint64_t> fits_bytes;
  uint64_t mallocs = 0;
  size_t sites_left_out = 0;
  std::vector<ComparedSite> sites;  // as many as the page has
};

ComparedPool comparable(const Story& story);

/// One of the two is null if it is in one run only.
template <typename Compared>
struct Pair {
  const Compared* before = nullptr;
  const Compared* after = nullptr;
};
using PoolPair = Pair<ComparedPool>;
using SitePair = Pair<ComparedSite>;

/// Pools of one device and number, then of one device, then any, in the order of the lists.
std::vector<PoolPair> match_pools(const std::vector<ComparedPool>& before,
                                  const std::vector<ComparedPool>& after);

/// Of one tag; by function and file first, then by the end of the file's path, then by the functions of the
/// stack in a file of any name, and last a function that is gone with one that is new if all else of their
/// stacks is the same. Of several sites that are alike, those with lines, sizes and stacks least apart belong
/// together. What differs most at the peak comes first, then what does at the end, then what is large.
std::vector<SitePair> match_sites(const PoolPair& pools);

/// What two runs differ in: a list of sentences.
std::vector<std::string> tell_difference(const PoolPair& pools);

/// The comparison for programs.
nlohmann::ordered_json comparison_to_json(const PoolPair& pools);

}  // namespace gpupool::cli
