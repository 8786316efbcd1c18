// SPDX-License-Identifier: Apache-2.0
// Replays a trace through its own pool, pass after pass, and checks the pool along the way.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/output.hpp"
#include "cli/recording/trace.hpp"
#include "gpupool/gpupool.hpp"

namespace gpupool::cli {

/// How to replay, whatever the trace.
struct ReplaySetup {
  /// The pool's, without its limit.
  Config config;
  int passes = 2;
  /// Write and check every block.
  bool with_data = false;
  /// Spread each pass over the time that the recorded program took, so that decisions of the pool that depend
  /// on time come out as in the live run: virtual time on the simulated device, waiting on a GPU.
  bool paced = false;
};

/// A driver call by name.
struct DriverCall {
  std::string_view name;
  gpupool_call_stat_t gpupool_driver_stats_t::*stat;
};

inline constexpr std::array<DriverCall, 12> kDriverCalls = {{
    {"create", &gpupool_driver_stats_t::create},
    {"release", &gpupool_driver_stats_t::release},
    {"map", &gpupool_driver_stats_t::map},
    {"set_access", &gpupool_driver_stats_t::set_access},
    {"unmap", &gpupool_driver_stats_t::unmap},
    {"address", &gpupool_driver_stats_t::address},
    {"malloc", &gpupool_driver_stats_t::malloc},
    {"free", &gpupool_driver_stats_t::free},
    {"event_record", &gpupool_driver_stats_t::event_record},
    {"query", &gpupool_driver_stats_t::query},
    {"stream_wait", &gpupool_driver_stats_t::stream_wait},
    {"host_wait", &gpupool_driver_stats_t::host_wait},
}};

/// What one pass cost.
struct PassResult {
  double nanoseconds = 0;  // of the host, for all events of the trace
  gpupool_driver_stats_t driver{};
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t steals = 0;
  uint64_t peak_reserved_bytes = 0;

  uint64_t driver_calls() const;
  double driver_microseconds() const;
};

/// The result of a replay.
struct ReplayResult {
  std::vector<PassResult> passes;
  uint64_t peak_reserved_bytes = 0;
  uint64_t host_waits = 0;
  uint64_t failed_allocations = 0;
  uint64_t inconsistencies = 0;
  /// Descriptions of the first failed allocation and the first inconsistencies.
  std::vector<std::string> problems;

  bool is_good() const { return failed_allocations == 0 && inconsistencies == 0; }
};

/// Replays all passes in a new pool with a limit of `cap_bytes` (0: none). With `stop_at_failure` the first
/// failed allocation ends the replay. Throws Error if the library fails in another way.
ReplayResult replay(const Trace& trace, const ReplaySetup& setup, uint64_t cap_bytes, bool stop_at_failure,
                    Progress& progress);

/// The smallest cap, as a multiple of the live peak and to 0.1 per cent of it, with which all passes
/// complete; nothing if even a large one does not help. Starts from `hint`, such as what a replay with no
/// cap reserved. Appends problems found with the pool along the way to `problems`.
std::optional<double> find_cap(const Trace& trace, const ReplaySetup& setup, double hint, Progress& progress,
                               std::vector<std::string>& problems);

}  // namespace gpupool::cli
