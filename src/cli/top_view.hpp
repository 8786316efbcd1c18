// SPDX-License-Identifier: Apache-2.0
// What `gpupool top` shows of one moment: a table for people, JSON for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/nvml.hpp"
#include "cli/processes.hpp"

namespace gpupool::cli {

struct Look {
  uint64_t now_ns = 0;  // CLOCK_MONOTONIC, as pages have it
  double unix_time = 0;
  std::vector<ShownProcess> processes;
  std::vector<Gpu> gpus;
  bool is_chosen = false;  // not all that there is
};

/// The lines of a table. `before`: the look that rates are taken from; null: counts since each pool began
/// instead. `width`: places of the terminal, for which columns are left out; 0: as wide as needed. `order`:
/// one of top_orders(). `status`: a line for the user; "": none.
std::vector<std::string> draw_look(const Look& now, const Look* before, size_t width,
                                   const std::string& order, const std::string& status);

/// A line for each GPU and each process.
void print_look_as_json(const Look& now);

}  // namespace gpupool::cli
