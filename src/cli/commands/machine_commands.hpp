// SPDX-License-Identifier: Apache-2.0
// The commands about all processes of the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/share/options.hpp"
#include "cli/top/choice.hpp"

namespace CLI {
class App;
}

namespace gpupool::cli {

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
