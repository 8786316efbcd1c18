// SPDX-License-Identifier: Apache-2.0
// Every number that decides who of a group gets memory, and when. Those that decide where it goes within a
// process are in core/policy.hpp.
#pragma once

#include <cstdint>

#include "base/bits.hpp"

namespace gpupool::internal::share::policy {

// ---- who waits for memory

/// Neighbours are asked again after this long, doubled each time: what they free meanwhile goes into their
/// caches without notice.
inline constexpr uint64_t kFirstGapNs = 2'000'000;
/// A member that asks again within this time is still growing, and asks for more than it lacks, so that its
/// neighbours release memory while it uses what they have released before: half of what it has asked for
/// since it began to grow, which bounds what is given in vain, and at most this much.
inline constexpr uint64_t kGrowthGapNs = 5'000'000;
inline constexpr uint64_t kMostAhead = kGiB;
/// A member that has taken nothing from the group for this long is idle, and asked first.
inline constexpr uint64_t kIdleNs = 1'000'000'000;

// ---- who gives it

/// Members whose parts differ from an equal share by less than this part of it do not hurry to make them
/// equal.
inline constexpr double kFair = 0.06;
/// After giving memory back, and taking it again, a member rests for this many times as long as the giving
/// took, so two members that need the same bytes spend at most a hundredth of their time on passing them back
/// and forth.
inline constexpr uint64_t kRestTimes = 100;
/// A member that has taken more within this time is growing.
inline constexpr uint64_t kGrowingNs = 100'000'000;

// ---- what the dead have left

/// How often to look for dead members while waiting: a lost lock rings no bell.
inline constexpr uint64_t kSweepNs = 1'000'000;
/// How long the device may take to show a dead member's memory as free. After that, somebody else has it by
/// now, or had it before.
inline constexpr uint64_t kLimboNs = 10'000'000'000;
/// How long the device has to show all of it as free. After that, it is enough that this much is free: a
/// program outside the group may have taken part of the rest.
inline constexpr uint64_t kStrictNs = 200'000'000;

}  // namespace gpupool::internal::share::policy
