// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of gpupool.hpp, which link to libgpupool and do not see its internals.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <gpupool/gpupool.hpp>

inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr gpupool::Config kSim{.backend = gpupool::Backend::sim};

/// The call throws gpupool::Error with this status.
template <typename Call>
void expect_error(gpupool_status_t status, Call call) {
  try {
    call();
    ADD_FAILURE() << "no exception";
  } catch (const gpupool::Error& error) {
    EXPECT_EQ(error.status(), status) << error.what();
  }
}

/// Failures of the simulated driver, of device 0, for a scope.
class SimScript {
 public:
  explicit SimScript(const char* script) { gpupool::check(gpupool_sim_script(0, script)); }
  ~SimScript() { (void)gpupool_sim_script(0, ""); }
  SimScript(const SimScript&) = delete;
  SimScript& operator=(const SimScript&) = delete;
};
