// SPDX-License-Identifier: Apache-2.0
// All commands. A source each, or each family, has the options, the help and the work: NAME.cpp.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace gpupool::cli {

/// A command of the whole. The first line of its description is what `gpupool --help` says of it.
struct Command {
  CLI::App* app;
  std::function<int()> run;  // once it was parsed: prints to standard output, and returns the exit status
};

Command add_advise(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_export(CLI::App& app);
Command add_import(CLI::App& app);
Command add_info(CLI::App& app);
Command add_leaks(CLI::App& app);
Command add_record(CLI::App& app);
Command add_replay(CLI::App& app);
Command add_report(CLI::App& app);
Command add_run(CLI::App& app);
Command add_salvage(CLI::App& app);
Command add_share(CLI::App& app);
Command add_sleep(CLI::App& app);
Command add_snapshot(CLI::App& app);
Command add_top(CLI::App& app);
Command add_trim(CLI::App& app);
Command add_wake(CLI::App& app);
Command add_why(CLI::App& app);

}  // namespace gpupool::cli
