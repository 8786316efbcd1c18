// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "cli/base/size.hpp"
#include "cli/measure/replay.hpp"

namespace gpupool::cli {
namespace {

/// The precision of the smallest cap, as a share of the live peak.
constexpr double kResolution = 0.001;

/// A pool that fails with this many times the live memory is not short of memory.
constexpr double kHighestCap = 32;

class CapSearch {
 public:
  CapSearch(const Trace& trace, const ReplaySetup& setup, Progress& progress,
            std::vector<std::string>& problems)
      : trace_(trace), setup_(setup), progress_(progress), problems_(problems) {
    setup_.with_data = false;
  }

  std::optional<double> run(double hint) {
    if (completes(1.0)) return 1.0;
    double fails = 1.0;
    double works = std::clamp(hint, 1.0 + kResolution, kHighestCap);
    while (!completes(works)) {
      if (works >= kHighestCap) return std::nullopt;
      fails = works;
      works = std::min(1.0 + 2 * (works - 1.0), kHighestCap);
    }
    while (works - fails > kResolution) {
      const double middle = (fails + works) / 2;
      (completes(middle) ? works : fails) = middle;
    }
    return works;
  }

 private:
  bool completes(double multiple) {
    const uint64_t steps = static_cast<uint64_t>(setup_.passes) * trace_.events.size();
    progress_.begin(fmt::format("{}: find-cap, try {}: {:.4f}x", trace_.name, ++tries_, multiple), steps);
    const uint64_t cap_bytes = scale_bytes(trace_.peak_live_bytes, multiple);
    const ReplayResult result = replay(trace_, setup_, cap_bytes, true, progress_);
    if (result.inconsistencies != 0) {
      for (const std::string& problem : result.problems) {
        problems_.push_back(fmt::format("with a cap of {:.4f}x: {}", multiple, problem));
      }
    }
    return result.failed_allocations == 0;
  }

  const Trace& trace_;
  ReplaySetup setup_;
  Progress& progress_;
  std::vector<std::string>& problems_;
  int tries_ = 0;
};

}  // namespace

std::optional<double> find_cap(const Trace& trace, const ReplaySetup& setup, double hint, Progress& progress,
                               std::vector<std::string>& problems) {
  return CapSearch(trace, setup, progress, problems).run(hint);
}

}  // namespace gpupool::cli
