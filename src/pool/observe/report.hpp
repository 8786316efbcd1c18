// SPDX-License-Identifier: Apache-2.0
// Where a pool's memory is, in words: for gpupool_report, and for the message of a malloc that fails.
#pragma once

#include <string>

namespace gpupool::internal {

class Exports;
class Sleeper;
struct PoolState;

/// Guarded by the pool's lock. Takes the caches' locks. Throws std::bad_alloc.
class Report {
 public:
  Report(PoolState& pool, const Exports& exports, const Sleeper& sleeper) noexcept
      : pool_(pool), exports_(exports), sleeper_(sleeper) {}

  /// A fact a line: what the whole holds, and indented below it the parts.
  std::string text() const;

 private:
  std::string device_report() const;
  std::string own_report() const;
  void add_shared_report(std::string& text) const;
  void add_parts_report(std::string& text) const;
  void add_graphs_report(std::string& text) const;
  std::string chunks_by_size() const;

  PoolState& pool_;
  const Exports& exports_;
  const Sleeper& sleeper_;
};

}  // namespace gpupool::internal
