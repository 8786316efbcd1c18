// SPDX-License-Identifier: Apache-2.0
// How the region of a group begins, whoever makes it: a member in a folder, or a broker.
#pragma once

#include <cstdint>

namespace gpupool::wire::region {

inline constexpr uint32_t kSlots = 256;
inline constexpr uint32_t kSlotBytes = 320;
inline constexpr uint32_t kHeaderBytes = 4096;
inline constexpr uint32_t kMajor = 1;
inline constexpr uint32_t kMinor = 0;
inline constexpr uint64_t kRegionBytes = kHeaderBytes + uint64_t{kSlots} * kSlotBytes;

/// It never changes.
struct Begin {
  char magic[8] = {'g', 'p', 's', 'h', 'a', 'r', 'e', '\n'};
  uint32_t major = kMajor;  // if it differs: another layout, not to be touched
  uint32_t minor = kMinor;  // if higher: more fields, in what is zero here
  uint32_t header_bytes = kHeaderBytes;
  uint32_t slot_bytes = kSlotBytes;
  uint32_t slot_count = kSlots;
  uint32_t reserved = 0;
  uint64_t region_bytes = kRegionBytes;
  uint64_t device_bytes = 0;
  int64_t created = 0;  // seconds since 1970
  char device[64] = {};
};
static_assert(sizeof(Begin) == 120);

}  // namespace gpupool::wire::region
