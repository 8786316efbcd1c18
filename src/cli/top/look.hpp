// SPDX-License-Identifier: Apache-2.0
// What `gpupool top` saw at one moment, and sums of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/processes/nvml.hpp"
#include "cli/processes/processes.hpp"

namespace gpupool::cli {

/// A process that has memory on a GPU and shows no pool.
struct Stranger {
  std::string gpu;  // its UUID
  uint64_t pid = 0;
  uint64_t bytes = 0;
  std::string command;  // any bytes; "": it is not seen here, as one of another container
};

struct Look {
  uint64_t now_ns = 0;  // CLOCK_MONOTONIC, as pages have it
  double unix_time = 0;
  std::vector<ShownProcess> processes;
  std::vector<Gpu> gpus;
  std::vector<Stranger> strangers;
  bool is_chosen = false;  // does not show all that there is
};

/// Those of a look that has its processes and GPUs, on each GPU the largest first. `only`: this process; 0:
/// all.
std::vector<Stranger> find_strangers(const Look& now, uint64_t only);

/// How long ago the pool's figures were written, in seconds. Nothing if a page says that it was in the
/// future.
std::optional<double> age_of(const ShownPool& pool, const Look& now);

/// "250ms", "3.2s", "12min".
std::string duration_text(double seconds);
/// The same of an age, of one width while it changes most.
std::string age_text(double seconds);

/// What a process's pools hold on a GPU; null: on all.
uint64_t reserved_by(const ShownProcess& process, const std::string* gpu);

/// What a process has on a GPU, as the driver sees it.
std::optional<uint64_t> used_on(const Gpu& gpu, uint64_t pid);

/// What all pools that are shown hold on a GPU.
uint64_t pooled_on(const Look& now, const Gpu& gpu);

}  // namespace gpupool::cli
