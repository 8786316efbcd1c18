// SPDX-License-Identifier: Apache-2.0
// What the command answers on systems that are not Linux, for what it does to other processes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "cli/base/library.hpp"
#include "cli/base/metrics_server.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/process_state.hpp"

namespace gpupool::cli {
namespace {

Command refused(CLI::App& app, const char* name,
                const char* advice = ", where processes can look into each other") {
  const auto refuse = [=]() -> int {
    throw InputError(fmt::format("gpupool {} works only on Linux{}", name, advice));
  };
  return {app.add_subcommand(name, "Only on Linux")->allow_extras(), refuse};
}

}  // namespace

Command add_record(CLI::App& app) {
  return refused(app, "record", ": set GPUPOOL_RECORD=FILE for the program instead");
}

Command add_run(CLI::App& app) {
  return refused(app, "run", ": set the limits of its framework instead");
}

Command add_share(CLI::App& app) {
  return refused(app, "share");
}

Command add_sleep(CLI::App& app) {
  return refused(app, "sleep");
}

Command add_snapshot(CLI::App& app) {
  return refused(app, "snapshot");
}

Command add_top(CLI::App& app) {
  return refused(app, "top");
}

Command add_trim(CLI::App& app) {
  return refused(app, "trim");
}

Command add_wake(CLI::App& app) {
  return refused(app, "wake");
}

int show_process(const std::string&, bool) {
  throw InputError("--process works only on Linux");
}

void serve_metrics(const std::string&, const std::function<std::string()>&) {
  throw InputError("--listen works only on Linux: without it, the metrics are written once");
}

}  // namespace gpupool::cli
