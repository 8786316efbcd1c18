// SPDX-License-Identifier: Apache-2.0
// The simulated devices of this process.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "device/sim_machine.hpp"

namespace gpupool {

/// One simulated device, for the life of the process.
struct SimState {
  std::mutex mutex;  // for all below
  int64_t open = 0;
  std::unique_ptr<SimMachine> machine;  // stays the same while open
};

/// The device of that number, made on first use. INVALID_ARGUMENT: no such number, or a bad GPUPOOL_SIM.
Status find_sim(int32_t ordinal, SimState*& state);

/// A device anew, not yet put anywhere.
std::unique_ptr<SimMachine> make_sim_machine(int32_t ordinal, const SimSettings& settings);

}  // namespace gpupool
