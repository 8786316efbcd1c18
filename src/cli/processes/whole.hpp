// SPDX-License-Identifier: Apache-2.0
// Sleep and wake of a whole process: its pools by its own library where it takes commands, which is fast and
// may drop contents, and then all that is left by the driver: context, graphs, what other libraries hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/processes/checkpoint_types.hpp"
#include "cli/processes/control.hpp"

namespace gpupool::cli {

struct WholeResult {
  bool changed = false;               // not: it was so already
  std::optional<ControlReply> pools;  // not: it takes no commands. What it refused, the driver does
  std::string why_no_pools;
  std::optional<uint64_t> gpu_bytes;  // what NVML said it had on the GPUs before a sleep
};

/// The number of a process of this user that is called so, or has this number. Throws InputError if there is
/// none, or are several.
uint64_t find_own_process(const std::string& who);

/// Its name, and what the driver says of it, which is not changed.
struct WholeState {
  uint64_t pid = 0;
  std::string name;
  driver::CUprocessState state = driver::CU_PROCESS_STATE_RUNNING;
};
/// `who`: as above. `limit`: seconds. Throws InputError if it does not use CUDA.
WholeState look_at_whole(const std::string& who, double limit);

/// This user's processes that have memory on a GPU, which is NVML's number, or its "GPU-...".
std::vector<uint64_t> own_processes_on(const std::string& gpu);

/// What a checkpoint does not save. Said before it begins.
void say_limits(uint64_t pid);

/// `limit`: seconds for each step. After a failure the process runs as before, or the message says how to go
/// on. Signals that would end this command wait until the process is in one state or the other.
WholeResult sleep_whole(uint64_t pid, const ControlRequest& pools, double limit);

/// From whatever step a sleep was left at. `timeout`: how long to wait for memory that others hold.
WholeResult wake_whole(uint64_t pid, const ControlRequest& pools, double limit, double timeout);

}  // namespace gpupool::cli
