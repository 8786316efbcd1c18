// SPDX-License-Identifier: Apache-2.0
// gpupool salvage: a whole recording of what was left behind.
#include <CLI/CLI.hpp>

#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/recording/recording.hpp"

namespace gpupool::cli {
namespace {

struct SalvageOptions {
  std::string file;
  std::string output;
};

int run_salvage(const SalvageOptions& options) {
  Damage damage;
  pack_recording(options.file, options.output, damage);
  (void)report_packed(options.output, damage);
  return 0;
}

constexpr const char* kSalvageAbout =
    "Make a whole recording of what a killed process left\n\n"
    "Makes a whole, packed recording of what GPUPOOL_RECORD or gpupool_record_start\n"
    "left behind, even if the process was killed or the file is damaged.\n";

constexpr const char* kSalvageExamples =
    "Examples:\n"
    "  gpupool salvage /tmp/run.part -o run.gpt && gpupool report run.gpt";

}  // namespace

Command add_salvage(CLI::App& app) {
  auto [command, options, made] =
      new_command<SalvageOptions>(app, "salvage", kSalvageAbout, kSalvageExamples, run_salvage);
  file_option(command, options.file);
  command.add_option("-o,--output", options.output, "The packed recording; must not be there")
      ->check(is_no_dash())
      ->required()
      ->option_text("FILE");
  return made;
}

}  // namespace gpupool::cli
