// SPDX-License-Identifier: Apache-2.0
// What a broker of regions and those who ask it say: a packet each. docs/inside/broker.md has the protocol.
#pragma once

#include <cstdint>

namespace gpupool::wire::broker {

inline constexpr char kMagic[8] = {'g', 'p', 'b', 'r', 'o', 'k', 'e', 'r'};
inline constexpr uint32_t kVersion = 1;
enum class Outcome : uint32_t { refused, ask, here, none };

struct Says {
  char magic[8];
  uint32_t version;
  Outcome outcome;
  uint64_t limit;        // of a new region, in bytes; 0: as the next says
  uint32_t limit_share;  // in millionths of the device; 0: as the member says
  uint32_t reserved;
  char message[128];
};
static_assert(sizeof(Says) == 160);

struct Asks {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
  char group[64];
  char device[64];
  uint64_t region_bytes;  // of a new region; 0: make none
  unsigned char page[4096];
};
static_assert(sizeof(Asks) == 4248);

}  // namespace gpupool::wire::broker
