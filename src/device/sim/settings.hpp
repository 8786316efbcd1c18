// SPDX-License-Identifier: Apache-2.0
// How a simulated device behaves: from gpupool_sim_config_t, or from GPUPOOL_SIM in the environment.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace gpupool::internal {

struct SimSettings {
  uint64_t capacity = 150'754'820'096;
  bool data = true;
  double price_scale = 1;
  bool real_time = false;             // calls take the time that they cost
  bool strict_streams = false;        // a number is a stream only once created
  uint64_t host = uint64_t{1} << 40;  // host memory that can be page-locked
  bool is_integrated = false;         // the host's memory is the device's
};

/// Sets what is not zero in `config`.
Status sim_settings_from(const gpupool_sim_config_t& config, SimSettings& settings);

/// Reads "capacity=8GiB,data=0,price_scale=2,streams=strict,host=64GiB,time=real,integrated=0". Sizes are
/// written as for gpupool_parse_size.
Status sim_settings_from(std::string_view text, SimSettings& settings);

/// What GPUPOOL_SIM says, if it is set.
Status sim_settings_from_environment(SimSettings& settings);

}  // namespace gpupool::internal
