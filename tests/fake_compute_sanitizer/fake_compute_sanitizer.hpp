// SPDX-License-Identifier: Apache-2.0
// A stand-in for the library of compute-sanitizer that takes what NVTX says of memory. It keeps what it was
// told, and what was wrong about that.
#pragma once

#include <cstdint>
#include <map>
#include <string>

struct ToldMemory {
  std::map<uint64_t, uint64_t> heaps;    // sizes by address
  std::map<uint64_t, uint64_t> regions;  // sizes by address
  std::string wrong;                     // the first thing
};

const ToldMemory& told_memory();
