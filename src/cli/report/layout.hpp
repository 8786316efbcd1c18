// SPDX-License-Identifier: Apache-2.0
// Where things were: a map of addresses over time, and the exact layout at some moments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/recording/recording.hpp"
#include "cli/recording/timeline.hpp"

namespace gpupool::cli {

/// A part of the addresses that was backed at some time; the parts lie one after another in the map.
struct BackedPart {
  uint64_t begin;
  uint64_t bytes;
};

/// A grid: columns are moments, rows are addresses.
struct AddressGrid {
  std::vector<uint64_t> ns;       // of the columns
  std::vector<BackedPart> parts;  // by address
  uint64_t bytes = 0;             // of all parts
  size_t rows = 0;
  // One character per cell, column after column, the lowest address first. In `fill` a blank is what nothing
  // backs, and '0' to '9' say how much of what is backed is live; `tags` has the largest group by tag, from
  // 'A', or a blank.
  std::vector<std::string> fill;
  std::vector<std::string> tags;
  std::vector<uint64_t> largest_free;  // at each column
};

struct ShownBlock {
  uint64_t address;
  uint64_t bytes;  // as requested
  uint64_t made_ns;
  uint32_t stack;
  uint32_t tag;
  uint32_t thread;
};

struct ShownChunk {
  uint64_t address;
  uint64_t bytes;
  uint64_t stream;
  uint64_t live_bytes;
  uint64_t blocks;
};

/// The exact layout at one moment.
struct Moment {
  std::string name;
  uint64_t ns = 0;
  uint64_t live = 0;
  uint64_t reserved = 0;
  std::vector<ShownChunk> chunks;
  std::vector<ShownBlock> blocks;  // the largest ones, by address
  uint64_t left_out = 0;           // blocks, if there were too many
  uint64_t chunks_left_out = 0;
};

struct Layout {
  AddressGrid grid;
  std::vector<Moment> moments;
};

Layout make_layout(const Recording& recording, uint64_t pool, const Timeline& timeline);

}  // namespace gpupool::cli
