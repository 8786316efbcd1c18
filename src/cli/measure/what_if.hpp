// SPDX-License-Identifier: Apache-2.0
// Plays a recording again with something changed, on the simulated device.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "cli/base/output.hpp"
#include "cli/recording/live.hpp"
#include "cli/recording/recording.hpp"
#include "cli/recording/trace.hpp"

namespace gpupool::cli {

/// What is changed; each part may be left empty.
struct Change {
  /// The stream that a block is allocated for instead of its own.
  std::function<uint64_t(const LiveBlock&)> stream;
  /// The bytes that are asked for instead.
  std::function<uint64_t(const LiveBlock&)> bytes;
  /// Blocks, by number, that are freed when so many events of the recording have happened, and not later.
  std::multimap<size_t, uint64_t> freed_after;
  /// How many events of the recording are played. If the last one is a failed malloc, it is asked for too.
  size_t end = SIZE_MAX;
};

/// Events between two updates of the progress bar.
inline constexpr size_t kEventsAtOnce = 16384;

class WhatIf {
 public:
  WhatIf(const Recording& recording, uint64_t pool, Progress& progress);

  Trace trace(const Change& change) const;
  /// The least limit under which it completes; nothing if none is found.
  std::optional<uint64_t> least_limit(const Change& change) const;
  bool fits_under(const Change& change, uint64_t limit) const;
  /// Physical memory that the pool takes with no limit.
  uint64_t most_reserved(const Change& change) const;

  struct DriverWork {
    uint64_t calls = 0;
    uint64_t nanoseconds = 0;
  };
  /// What the driver has to do if gpupool_empty is called after each of these numbers of events.
  DriverWork driver_work(const std::vector<size_t>& empty_after) const;

 private:
  const Recording& recording_;
  uint64_t pool_;
  Progress& progress_;
};

}  // namespace gpupool::cli
