// SPDX-License-Identifier: Apache-2.0
// What the command answers on systems that are not Linux, for what it does to other processes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/base/library.hpp"
#include "cli/base/metrics_server.hpp"
#include "cli/commands/control_commands.hpp"
#include "cli/commands/machine_commands.hpp"
#include "cli/commands/watch_commands.hpp"

namespace gpupool::cli {
namespace {

InputError only_on_linux(const char* what) {
  return InputError(fmt::format("{} works only on Linux, where processes can look into each other", what));
}

const CLI::App* add_refused(CLI::App& app, const char* name) {
  return app.add_subcommand(name, "Only on Linux")->allow_extras();
}

}  // namespace

int run_record(const RecordOptions&) {
  throw InputError("gpupool record works only on Linux: set GPUPOOL_RECORD=FILE for the program instead");
}

int run_top(const TopOptions&) {
  throw only_on_linux("gpupool top");
}

int run_share(const ShareOptions&) {
  throw only_on_linux("gpupool share");
}

void serve_metrics(const std::string&, const std::function<std::string()>&) {
  throw InputError("--listen works only on Linux: without it, the metrics are written once");
}

ControlCommands::ControlCommands(CLI::App& app)
    : trim_(add_refused(app, "trim")),
      snapshot_(add_refused(app, "snapshot")),
      sleep_(add_refused(app, "sleep")),
      wake_(add_refused(app, "wake")) {}

std::optional<int> ControlCommands::run() const {
  for (const CLI::App* const command : {trim_, snapshot_, sleep_, wake_}) {
    if (command->parsed()) throw only_on_linux(fmt::format("gpupool {}", command->get_name()).c_str());
  }
  return std::nullopt;
}

}  // namespace gpupool::cli
