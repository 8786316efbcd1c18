// SPDX-License-Identifier: Apache-2.0
// The number of simulated devices, and types for facts about each of them.
#pragma once

#include <array>
#include <cstdint>

namespace gpupool::internal {

inline constexpr int32_t kSimDeviceCount = 8;

/// A moment on each device, in its own virtual time: the clocks of two devices are unrelated.
using SimTimes = std::array<uint64_t, kSimDeviceCount>;

/// Devices as a set of bits.
using SimDeviceSet = uint64_t;

inline constexpr SimDeviceSet kAllSimDevices = (SimDeviceSet{1} << kSimDeviceCount) - 1;

constexpr SimDeviceSet sim_device_set(int32_t ordinal) noexcept {
  return SimDeviceSet{1} << ordinal;
}

}  // namespace gpupool::internal
