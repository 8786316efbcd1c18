// SPDX-License-Identifier: Apache-2.0
// What a recording is to be, from the text that names its file; with a ring, which files take turns.
//
// A ring keeps the newest events in two recordings. When FILE has half of what is to be kept, it ends,
// becomes FILE.old in place of the one before, and a new recording begins at FILE with the blocks that are
// live. When a malloc fails for the first time, what FILE has becomes FILE.oom, and that stays.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"

namespace gpupool::internal {

/// A ring keeps no less: 16 chunks in its two files.
inline constexpr uint64_t kLeastRingBytes = uint64_t{1} << 20;
/// A ring that is short of time pays for its changes with a share of it that can be seen.
inline constexpr uint64_t kLeastRingNs = 1'000'000'000;

struct Plan {
  std::string path;            // of a ring: from the root, since a program may change its folder
  std::string old_path;        // of a ring; else ""
  std::string failed_path;     // the same; "" once that file is made
  uint64_t part_bytes = 0;     // of events, after which a ring's file makes way for the next
  uint64_t part_ns = 0;        // the same in time; 0: whatever it takes
  bool names_process = false;  // the path has the process's number

  bool is_ring() const noexcept { return !old_path.empty(); }
};

/// Reads "FILE", "FILE,last=512MiB" or "FILE,last=10min"; "%p" in FILE becomes the process's number. Another
/// comma belongs to the name. INVALID_ARGUMENT for a value that is none, or too small or large.
Status read_plan(const char* text, Plan& plan);

/// For the first recording of a program: where the files' names have the process's number and are taken, as
/// by the program that the process was before exec, they become those of "FILE.2", "FILE.3" and so on.
void avoid_earlier(Plan& plan);

/// INVALID_ARGUMENT if something is where a ring would put a file aside.
Status check_is_free(const Plan& plan);

/// Gives the file of a ring that has ended the name under which it stays. A file that somebody has taken away
/// meanwhile is no failure. Needs no memory.
Status put_aside(Plan& plan, bool after_failure) noexcept;

}  // namespace gpupool::internal
