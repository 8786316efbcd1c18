// SPDX-License-Identifier: Apache-2.0
// Failures of the simulated driver, and deaths in it, by call and occurrence. gpupool_sim_script defines the
// language.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "device/device.hpp"

namespace gpupool::internal {

class SimScript {
 public:
  /// Replaces the script and counts from 1 again. A bad script changes nothing.
  Status set(std::string_view text);

  /// Counts one call, and fails it, or ends the process, if the script says so.
  Status check(Call call) noexcept;

 private:
  enum class Failure : uint8_t { out_of_memory, error, kill };
  struct Rules {
    uint64_t seen = 0;
    std::optional<Failure> every;
    std::unordered_map<uint64_t, Failure> at;
  };
  using Table = std::array<Rules, kCalls>;

  static bool parse_entry(std::string_view entry, Table& table);

  Table table_;
  bool active_ = false;
};

}  // namespace gpupool::internal
