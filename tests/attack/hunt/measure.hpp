// SPDX-License-Identifier: Apache-2.0
// Plays a pattern on gpupool until it should have come to rest, and says what it costs then.
#pragma once

#include "attack/hunt/bytes.hpp"
#include "attack/hunt/laws.hpp"

namespace hunt {

inline constexpr int kPeriodsMeasured = 4;
/// What may be live at a time: a quarter of what the simulated device has.
inline constexpr uint64_t kMostLive = 32 * kGiB;

/// In a process of its own, on the simulated device: if that process ends or hangs, that is a fault.
Figures measure(const Pattern& pattern);

}  // namespace hunt
