// SPDX-License-Identifier: Apache-2.0
// What gpupool bench measures.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cli/base/library.hpp"

namespace gpupool::cli {

/// What a row of the benchmark is about.
struct CaseInfo {
  std::string name;
  uint64_t size;  // of the blocks; of the largest if they differ
  int threads;
  uint64_t live_blocks;  // blocks that stay live meanwhile
};

/// Work that can be repeated any number of times.
class BenchCase {
 public:
  explicit BenchCase(CaseInfo info) : info_(std::move(info)) {}
  virtual ~BenchCase() = default;
  BenchCase(const BenchCase&) = delete;
  BenchCase& operator=(const BenchCase&) = delete;

  const CaseInfo& info() const noexcept { return info_; }
  /// Repeats it `count` times on each thread. Returns nanoseconds per repeat, as a thread sees it.
  virtual double run(uint64_t count) = 0;

 private:
  CaseInfo info_;
};

/// malloc and free of one size, again and again, by several threads on a stream each, or all on one.
std::unique_ptr<BenchCase> make_pair_case(const Config& config, CaseInfo info, bool is_one_stream);

/// malloc and free of one size, which go into a recording without stacks.
std::unique_ptr<BenchCase> make_recorded_pair_case(const Config& config, CaseInfo info);

/// malloc and free of one size on `streams` streams in turn or, with several threads, each time on a randomly
/// picked one, as with tasks that move between threads.
std::unique_ptr<BenchCase> make_streams_case(const Config& config, CaseInfo info, size_t streams);

/// malloc and free of `sizes` sizes in turn, multiples of 512, on one stream.
std::unique_ptr<BenchCase> make_sizes_case(const Config& config, CaseInfo info, size_t sizes);

/// malloc, free and gpupool_park_stream, as for a library whose streams may end at any time.
std::unique_ptr<BenchCase> make_parked_pair_case(const Config& config, CaseInfo info);

/// One thread allocates, and another one frees what it gets from the first through a ring of 256 pointers.
std::unique_ptr<BenchCase> make_free_elsewhere_case(const Config& config, CaseInfo info);

/// The same without the pool: the cost of passing a pointer to another thread.
std::unique_ptr<BenchCase> make_ring_case(CaseInfo info);

/// Among info.live_blocks live blocks of 512 bytes to info.size, with log-uniform sizes, frees a randomly
/// picked one and allocates another in its place. That counts as one.
std::unique_ptr<BenchCase> make_churn_case(const Config& config, CaseInfo info);

/// Yardstick: lock and unlock of an uncontended mutex.
std::unique_ptr<BenchCase> make_mutex_case();

/// Yardstick: malloc and free of the C library.
std::unique_ptr<BenchCase> make_libc_case(uint64_t size);

}  // namespace gpupool::cli
