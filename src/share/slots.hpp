// SPDX-License-Identifier: Apache-2.0
// The places of a region, as whoever has one uses them: a member, or a program that `gpupool run --hooks`
// holds to the group's limit. Nothing here allocates, throws or waits for another process.
#pragma once

#include <cstdint>

#include "share/region.hpp"

namespace gpupool::internal::share {

/// The longest wait for any member, whatever was requested: 10 s.
inline constexpr uint64_t kLongestWait = 10'000'000'000;

constexpr uint64_t units_of(uint64_t bytes) noexcept {
  return bytes / kUnitBytes + (bytes % kUnitBytes != 0 ? 1 : 0);
}

/// Who takes a place, for those who list it.
struct Resident {
  const char* name;
  uint64_t uid;
  uint64_t pid;
};

/// Takes a place by its lock, which goes with the file's last descriptor and mapping. False: all are taken.
bool take_slot(Layout& layout, const File& file, const Resident& self, uint32_t& taken) noexcept;

/// A limit that a program asks for holds where it has the group to itself: not only for the first that ever
/// came. 0: it asks for none.
void set_limit_of_empty(Layout& layout, uint32_t own, uint64_t limit) noexcept;

/// Whether no other member waits, with an earlier turn than this one, for what is left beyond `units`.
bool is_passing(const Layout& region, uint32_t own, uint64_t units) noexcept;

/// How many bytes it holds beyond an equal share of the group's, as a part of that share.
double beyond_share(const Layout& region, uint32_t own) noexcept;

/// Recovers what dead members, whose lock is gone, left behind, as far as the device shows it as free.
/// `free`: what the device has free; ~0 if unknown. Returns how much is still to come.
uint64_t refund_the_dead(Layout& layout, const File& file, uint64_t free) noexcept;

}  // namespace gpupool::internal::share
