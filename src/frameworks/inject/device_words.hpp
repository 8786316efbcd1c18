// SPDX-License-Identifier: Apache-2.0
// A device, as the driver describes it.
#pragma once

#include <cstdint>
#include <string>

#include "frameworks/inject/driver.hpp"

namespace gpupool::inject {

struct DeviceFunctions {
// A declaration has no brackets to spare: NOLINTNEXTLINE(bugprone-macro-parentheses)
#define GPUPOOL_MEMBER(name, arguments) int(*name) arguments = nullptr;
  GPUPOOL_DEVICE_FUNCTIONS(GPUPOOL_MEMBER)
#undef GPUPOOL_MEMBER
};

struct DeviceWords {
  std::string name;
  std::string id;  // its UUID, as NVML has it; "" if the driver does not say
  uint64_t total = 0;
};

DeviceWords words_of(const DeviceFunctions& driver, int device);

}  // namespace gpupool::inject
