// SPDX-License-Identifier: Apache-2.0
// How processes ended that are no children of this one, as far as the system tells.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/base/process_files.hpp"
#include "cli/recording/recording.hpp"

namespace gpupool::cli {

/// Of a status as wait() gives it.
ProcessEnd end_of_status(int status);

/// Holds on to each process of a program that begins a recording, and learns how it ended: from /proc while
/// its parent has not asked yet, and later from whoever holds on to it, which Linux does since 6.15. On older
/// ones, what a parent has asked for at once is not known. It changes nothing for the processes.
class ProcessEnds {
 public:
  /// Recordings appear in these folders, each under the number of its process. Make it before the program
  /// runs.
  explicit ProcessEnds(const std::vector<std::string>& folders);

  /// Watches until this child of ours has ended, which still is to be waited for; at once if the system does
  /// not let it watch.
  void watch(pid_t child);

  std::optional<ProcessEnd> of(pid_t process) const;

 private:
  bool wait(int program, int timeout);
  void take_new();
  void take_end(pid_t process);

  OpenFile files_;                     // tells of new ones
  std::map<pid_t, OpenFile> running_;  // as far as is known
  std::map<pid_t, ProcessEnd> ended_;
};

}  // namespace gpupool::cli
