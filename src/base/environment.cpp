// SPDX-License-Identifier: Apache-2.0
#include "base/environment.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <string_view>

#include "os/process.hpp"

namespace gpupool::internal {
namespace {

constexpr std::string_view kPrefix = "GPUPOOL_";
constexpr std::string_view kTestPrefix = "GPUPOOL_TEST_";

// docs/environment.md has a row for each, which tests/tools/test_environment.py checks.
constexpr std::string_view kNames[] = {
    "GPUPOOL_BACKEND",       "GPUPOOL_CAP",
    "GPUPOOL_CONTROL",       "GPUPOOL_DEBUG",
    "GPUPOOL_FRACTION",      "GPUPOOL_IDLE",
    "GPUPOOL_INSTALL",       "GPUPOOL_LAUNCHER",
    "GPUPOOL_LIBCUDA",       "GPUPOOL_LIBCUPTI",
    "GPUPOOL_LIBNVML",       "GPUPOOL_LIMIT",
    "GPUPOOL_LOG",           "GPUPOOL_MODE",
    "GPUPOOL_NODE_ADDON",    "GPUPOOL_RECORD",
    "GPUPOOL_RECORD_DRIVER", "GPUPOOL_RECORD_STACKS",
    "GPUPOOL_RUN_CAP",       "GPUPOOL_RUN_KEEP",
    "GPUPOOL_RUN_SHARE",     "GPUPOOL_RUN_SHARE_LIMIT",
    "GPUPOOL_SAMPLE",        "GPUPOOL_SHARE",
    "GPUPOOL_SHARE_DIR",     "GPUPOOL_SHARE_GUARANTEED",
    "GPUPOOL_SHARE_LIMIT",   "GPUPOOL_SHARE_PRIORITY",
    "GPUPOOL_SHARE_SOCKET",  "GPUPOOL_SIM",
    "GPUPOOL_SIM_SHARED",    "GPUPOOL_STATS",
    "GPUPOOL_TORCH_SHIM",
};

// What the project's own checks set for the programs that they start.
constexpr std::string_view kOfChecks[] = {
    "GPUPOOL_COMMAND", "GPUPOOL_DEBUG_BACKEND", "GPUPOOL_LIBRARY", "GPUPOOL_PREFIX", "GPUPOOL_WHEEL",
};

constexpr size_t kLongest = 63;  // no name is longer; what is, is compared as far as that

/// How many letters must be put in, taken out or changed to turn one name into the other.
size_t distance(std::string_view one, std::string_view other) noexcept {
  one = one.substr(0, kLongest);
  other = other.substr(0, kLongest);
  std::array<size_t, kLongest + 1> row{};
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t at = 0; at < one.size(); ++at) {
    size_t before = row[0]++;
    for (size_t to = 0; to < other.size(); ++to) {
      const size_t changed = before + (one[at] == other[to] ? 0 : 1);
      before = row[to + 1];
      row[to + 1] = std::min({changed, before + 1, row[to] + 1});
    }
  }
  return row[other.size()];
}

std::string_view nearest_to(std::string_view name) noexcept {
  return *std::min_element(std::begin(kNames), std::end(kNames),
                           [&](auto one, auto other) { return distance(name, one) < distance(name, other); });
}

/// Kubernetes gives every container such variables for a service that is called gpupool, or begins so.
bool is_of_service(std::string_view name) noexcept {
  return name.find("_SERVICE_") != std::string_view::npos || name.find("_PORT_") != std::string_view::npos ||
         name.ends_with("_PORT");
}

}  // namespace

void tell_unknown_variables() noexcept {
  static constinit std::atomic<bool> is_told{false};
  if (is_told.exchange(true)) return;
  for (const char* const* variable = os::environment(); variable != nullptr && *variable != nullptr;
       ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with(kPrefix) || name.starts_with(kTestPrefix) || is_of_service(name)) continue;
    if (std::ranges::find(kNames, name) != std::end(kNames)) continue;
    if (std::ranges::find(kOfChecks, name) != std::end(kOfChecks)) continue;
    const std::string_view nearest = nearest_to(name);
    std::fprintf(stderr, "gpupool: %.*s is no variable that gpupool knows: is %.*s meant?\n",
                 static_cast<int>(std::min(name.size(), kLongest)), name.data(),
                 static_cast<int>(nearest.size()), nearest.data());
  }
}

}  // namespace gpupool::internal
