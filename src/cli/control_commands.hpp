// SPDX-License-Identifier: Apache-2.0
// The commands that ask a running process to do something with its pools.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace gpupool::cli {

/// What each of them takes, and what some take.
struct ControlOptions {
  uint64_t pid = 0;
  uint64_t pool = 0;  // 0: see tag
  std::string tag;    // "": all pools
  double wait = 60;   // seconds
  bool json = false;
  std::string keep;     // trim: bytes of each pool; "": no free ones
  bool report = false;  // snapshot
  std::string output = "-";
  bool save = false;  // sleep; so it does if neither is set
  bool drop = false;
  bool hold_mallocs = false;
  bool retain_backup = false;  // wake
  double timeout = 0;          // seconds
};

/// These commands, as a part of the whole.
class ControlCommands {
 public:
  explicit ControlCommands(CLI::App& app);
  /// The exit status of the one that was given; nothing if none was.
  std::optional<int> run() const;

 private:
  ControlOptions trim_options_;
  ControlOptions snapshot_options_;
  ControlOptions sleep_options_;
  ControlOptions wake_options_;
  const CLI::App* trim_;
  const CLI::App* snapshot_;
  const CLI::App* sleep_;
  const CLI::App* wake_;
};

}  // namespace gpupool::cli
