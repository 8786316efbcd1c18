// SPDX-License-Identifier: Apache-2.0
// The commands about all processes of the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/top_choice.hpp"

namespace CLI {
class App;
}

namespace gpupool::cli {

struct ShareOptions {
  std::string group;   // "": as GPUPOOL_SHARE says; to list, all where it is not set either
  std::string device;  // "": to list, all; else auto
  bool list = false;
  bool repair = false;
  bool selftest = false;
  bool json = false;
  std::vector<std::string> figures;  // FIGURE=VALUE
  std::optional<uint32_t> member;
  // The self-test's.
  uint32_t processes = 4;
  double seconds = 3;
  std::string size;                    // "": as kTestGroupSize says
  std::optional<uint64_t> guaranteed;  // this is a member that the self-test has started, and is sure of this
};

struct TopOptions {
  bool once = false;
  bool json = false;
  bool prometheus = false;
  std::string listen;   // for Prometheus; "": write once
  double interval = 1;  // seconds
  uint64_t pid = 0;     // 0: all
  TopChoice choice;
};

int run_share(const ShareOptions& options);
int run_top(const TopOptions& options);

/// These commands, as a part of the whole.
class MachineCommands {
 public:
  explicit MachineCommands(CLI::App& app);
  /// The exit status of the one that was given; nothing if none was.
  std::optional<int> run() const;

 private:
  ShareOptions share_options_;
  TopOptions top_options_;
  const CLI::App* share_;
  const CLI::App* top_;
};

}  // namespace gpupool::cli
