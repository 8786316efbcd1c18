// SPDX-License-Identifier: Apache-2.0
// The commands info, replay and bench. Each prints to standard output and returns the exit status.
#pragma once

#include <string>
#include <vector>

namespace gpupool::cli {

inline constexpr const char* kJsonHelp = "Print JSON for programs, one object a line, and nothing else";

struct InfoOptions {
  std::string device;  // empty: all there are
  bool json = false;
};

struct ReplayOptions {
  std::vector<std::string> files;
  std::string device = "auto";
  std::string cap;
  std::string max_chunk;
  std::string mode = "auto";
  double slack = 0;
  int passes = 2;
  bool find_cap = false;
  bool data = false;
  bool paced = false;
  bool json = false;
};

struct BenchOptions {
  std::string device = "auto";
  std::vector<int> threads = {1, 2, 4};
  double seconds = 0.2;
  bool json = false;
};

int run_info(const InfoOptions& options);
int run_replay(const ReplayOptions& options);
int run_bench(const BenchOptions& options);

}  // namespace gpupool::cli
