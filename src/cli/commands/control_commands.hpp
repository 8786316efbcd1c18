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

/// The options of all these commands, and those of only some.
struct ControlOptions {
  uint64_t pid = 0;
  uint64_t pool = 0;  // 0: see tag
  std::string tag;    // "": all pools
  double wait = 60;   // seconds
  bool json = false;
  std::string keep;     // trim: bytes of each pool; "": nothing free
  bool report = false;  // snapshot
  std::string output = "-";
  bool save = false;  // sleep; the default
  bool drop = false;
  bool hold_mallocs = false;
  std::string bytes;           // sleep: what to give back; "": all
  bool retain_backup = false;  // wake
  double timeout = 0;          // seconds
};

/// Adds these commands to the whole.
class ControlCommands {
 public:
  explicit ControlCommands(CLI::App& app);
  /// Runs the one that was given and returns its exit status; nothing if none was.
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
