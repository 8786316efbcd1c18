// SPDX-License-Identifier: Apache-2.0
// No processes share a simulated device here: nothing tells which of them are alive.
#include "device/sim/shared.hpp"

#include <cstdlib>

namespace gpupool::internal {

std::string sim_shared_name(int32_t ordinal) {
  return "sim-" + std::to_string(ordinal);
}

Status SimShared::open(int32_t, std::unique_ptr<SimShared>&) {
  const char* const name = std::getenv("GPUPOOL_SIM_SHARED");
  if (name == nullptr || *name == '\0') return kSuccess;
  return fail(GPUPOOL_ERROR_UNSUPPORTED,
              "GPUPOOL_SIM_SHARED is \"%.64s\", and only on Linux do processes share a simulated device",
              name);
}

SimShared::~SimShared() = default;

bool SimShared::charge(uint64_t, uint64_t) noexcept {
  return true;
}

void SimShared::refund(uint64_t) noexcept {}

uint64_t SimShared::used() const noexcept {
  (void)slot_;  // compilers name fields that nobody uses
  return 0;
}

}  // namespace gpupool::internal
