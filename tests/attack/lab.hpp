// SPDX-License-Identifier: Apache-2.0
// Shared by the attacks: simulated devices, the size of a run, and the cost of the process itself.
#pragma once

#include <gpupool/gpupool.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "pool/pool_under_test.hpp"

namespace attack {

using pool_test::configure_device;
using pool_test::kGiB;
using pool_test::kGranule;
using pool_test::kIsSanitized;
using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::kUnknownStream;
using pool_test::last_message;
using pool_test::ok;
using pool_test::PoolUnderTest;
using pool_test::refused;

inline constexpr uint32_t kAddressesOnly = 2;
inline constexpr uint32_t kWithData = 1;

/// What the process may grow by for reasons of its own; a sanitizer keeps what is freed for a while.
inline constexpr uint64_t kNoise = kIsSanitized ? 600 * kMiB : 2 * kMiB;

inline gpupool_config_t sim_config(int32_t device = 0) {
  gpupool_config_t config = pool_test::empty_config();
  config.device = device;
  config.backend = GPUPOOL_BACKEND_SIM;
  return config;
}

/// What a simulated device has free.
inline uint64_t free_on_device(int32_t device) {
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  EXPECT_TRUE(ok(gpupool_device_info(GPUPOOL_BACKEND_SIM, device, &info)));
  return info.free_bytes;
}

/// No rule of the simulated device was broken so far.
inline testing::AssertionResult has_no_faults(int32_t device) {
  uint64_t faults = 0;
  char text[512] = {};
  EXPECT_TRUE(ok(gpupool_sim_faults(device, &faults, text, sizeof text)));
  if (faults == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << faults << " faults, the last: " << text;
}

/// A number from the environment, which makes a run larger; sanitizers make the usual one smaller.
inline uint64_t size_from(const char* variable, uint64_t usual) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : kIsSanitized ? usual / 5 : usual;
}

/// Processor time of this thread, which other processes do not lengthen.
inline uint64_t cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

/// Pages of this process, in bytes: mapped at all (0), and in memory (1).
inline uint64_t process_bytes(int column) {
  malloc_trim(0);
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  unsigned long long pages[2] = {};
  EXPECT_NE(file, nullptr);
  if (file == nullptr) return 0;
  EXPECT_EQ(std::fscanf(file, "%llu %llu", &pages[0], &pages[1]), 2);
  std::fclose(file);
  return pages[column] * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}
inline uint64_t addresses_of_process() {
  return process_bytes(0);
}
inline uint64_t memory_of_process() {
  return process_bytes(1);
}

}  // namespace attack
