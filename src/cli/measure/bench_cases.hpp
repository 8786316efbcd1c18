// SPDX-License-Identifier: Apache-2.0
// What gpupool bench measures.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/base/library.hpp"

namespace gpupool::cli {

/// What a row of the benchmark is about.
struct CaseInfo {
  std::string name;
  uint64_t size;  // of the blocks; of the largest if they differ
  int threads;
  uint64_t live_blocks;  // blocks that stay live meanwhile
  uint64_t sizes = 1;    // how many different ones
};

struct BenchCase {
  CaseInfo info;
  /// Repeats it `count` times on each thread. Returns nanoseconds per repeat, as a thread sees it.
  std::function<double(uint64_t count)> run;
};

/// Makes a case when its turn comes: each has its own pool, and only one exists at a time.
using CaseMaker = std::function<BenchCase()>;

/// In the order of their rows; `thread_counts`: for the cases with several threads.
std::vector<CaseMaker> all_cases(const Config& config, const std::vector<int>& thread_counts);

/// Yardstick: lock and unlock of an uncontended mutex.
BenchCase mutex_case();

/// Yardstick: malloc and free of the C library.
BenchCase libc_case(uint64_t size);

}  // namespace gpupool::cli
