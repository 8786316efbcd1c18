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
  std::string group;   // "": as GPUPOOL_SHARE says, or else, to list, all
  std::string device;  // "": to list, all; else auto
  bool list = false;
  bool repair = false;
  bool selftest = false;
  bool json = false;
  std::vector<std::string> figures;  // FIGURE=VALUE
  std::optional<uint32_t> member;
  std::string socket;  // of a broker; "": as GPUPOOL_SHARE_SOCKET says
  // For the broker.
  std::string serve;  // its socket
  std::string limit;
  std::vector<std::string> allowed_users;  // names or numbers
  std::vector<std::string> allowed_groups;
  // For the self-test.
  uint32_t processes = 4;
  double seconds = 3;
  std::string size;                    // "": as kTestGroupSize says
  std::optional<uint64_t> guaranteed;  // set in a member of the self-test: its guarantee
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

/// Adds these commands to the whole.
class MachineCommands {
 public:
  explicit MachineCommands(CLI::App& app);
  /// Runs the one that was given and returns its exit status; nothing if none was.
  std::optional<int> run() const;

 private:
  ShareOptions share_options_;
  TopOptions top_options_;
  const CLI::App* share_;
  const CLI::App* top_;
};

}  // namespace gpupool::cli
