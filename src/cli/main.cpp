// SPDX-License-Identifier: Apache-2.0
// The gpupool command: its commands by group, and its exit status.
//
//   0   all went well
//   1   a failed allocation, an inconsistency, or the library failed
//   2   bad input: an unknown option or device, a broken trace
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/system.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/help/help.hpp"
#include "cli/help/pages.hpp"

namespace gpupool::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kBadInput = 2;

constexpr const char* kAbout =
    "gpupool: one pool of GPU memory for programs in any language.\n\n"
    "This command shows what the library sees on this machine, records and explains\n"
    "what programs do with their pools, and measures how fast and how tight a pool\n"
    "is. It needs no GPU: where there is none, everything runs on a simulated H200.\n";

constexpr const char* kMore =
    "gpupool COMMAND --help says all about a command, with examples.\n"
    "\n"
    "Exit status: 0 all went well; 1 a failed allocation, an inconsistency or an\n"
    "error of the library; 2 bad input (option, device or trace).";

constexpr const char* kToTry =
    "gpupool: one pool of GPU memory for programs in any language. Try:\n"
    "  gpupool info                        what is there, and why CUDA is not available\n"
    "  gpupool replay lm_train.trace.gz    how much memory a recorded workload takes\n"
    "  gpupool bench                       how long a malloc and a free take\n"
    "gpupool --help says more.\n";

struct CommandGroup {
  const char* name;
  std::vector<Command (*)(CLI::App& app)> commands;
};

/// In the order of `gpupool --help`.
const CommandGroup kGroups[] = {
    {"See what is there", {add_info, add_top, add_share}},
    {"Measure a pool", {add_replay, add_bench}},
    {"Run any CUDA program", {add_run}},
    {"Record a program", {add_record, add_salvage}},
    {"Read a recording", {add_report, add_leaks, add_advise, add_why, add_export, add_import}},
    {"Ask a running process", {add_snapshot, add_trim, add_sleep, add_wake}},
};

int run(int argc, char** argv) {
  CLI::App app(kAbout, "gpupool");
  app.allow_windows_style_options(false);  // a path that begins with "/" is one there too
  app.footer(kMore);
  app.set_version_flag("--version", std::string("gpupool ") + gpupool_version_string(),
                       "Print the version of the library");
  app.set_help_flag("--help,-h", "Print this help");
  app.formatter(std::make_shared<Help>());
  std::string pages;
  app.add_option("--write-pages", pages)->group("");  // hidden: for the build
  std::vector<Command> commands;
  for (const CommandGroup& group : kGroups) {
    for (const auto add : group.commands) {
      commands.push_back(add(app));
      commands.back().app->group(group.name);
    }
  }
  refuse_empty_values(app);
  refuse_unknown_command(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadInput;
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  if (!pages.empty()) {
    write_pages(app, pages);
    return 0;
  }
  (void)std::fputs(kToTry, stderr);
  return kBadInput;
}

/// Turns errors into an exit status and a message on standard error.
int run_and_explain(int argc, char** argv) {
  try {
    const int status = run(argc, argv);
    if (flush_output()) return status;
    say("the output could not be written");
  } catch (const InputError& error) {
    say(error.what());
    return kBadInput;
  } catch (const std::bad_alloc&) {
    say("this machine's memory is not enough");
  } catch (const std::exception& error) {
    say(error.what());
  }
  return kFailed;
}

}  // namespace
}  // namespace gpupool::cli

int main(int argc, char** argv) {
  gpupool::cli::prepare_process();
  return gpupool::cli::run_and_explain(argc, argv);
}
