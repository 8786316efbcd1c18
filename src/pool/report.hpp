// SPDX-License-Identifier: Apache-2.0
// Where a pool's memory is, in words: for gpupool_report, and for the message of a malloc that fails.
#pragma once

#include <string>

namespace gpupool::internal {

class Exports;
class Statistics;
struct Rooms;

/// Guarded by the pool's lock. Takes the caches' locks. Throws std::bad_alloc.
class Report {
 public:
  Report(const Rooms& rooms, const Statistics& statistics, const Exports& exports) noexcept
      : rooms_(rooms), statistics_(statistics), exports_(exports) {}

  std::string text() const;

 private:
  std::string family_report() const;
  std::string group_report() const;
  std::string chunks_by_size() const;

  const Rooms& rooms_;
  const Statistics& statistics_;
  const Exports& exports_;
};

}  // namespace gpupool::internal
