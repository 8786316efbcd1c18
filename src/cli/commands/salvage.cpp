// SPDX-License-Identifier: Apache-2.0
// gpupool salvage: a whole recording of what was left behind.
#include "cli/commands/salvage.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include <cstdio>
#include <filesystem>

#include "cli/base/output.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/option_checks.hpp"

namespace gpupool::cli {

namespace fs = std::filesystem;

namespace {

std::string after_semicolon(const std::string& words) {
  return words.empty() ? "" : "; " + words;
}

}  // namespace

bool report_packed(const std::string& file, const Damage& damage) {
  const Recording recording = read_recording(file);
  say(fmt::format("{} events of process {} are in {} ({} bytes){}{}", recording.events.size(), recording.pid,
                  file, fs::file_size(file), after_semicolon(recording.how_it_ended()),
                  recording.lost != 0
                      ? fmt::format("; {} more events were lost, as the disk was full", recording.lost)
                      : ""));
  if (damage.parts != 0) {
    const std::string bytes = damage.bytes == 0 ? "" : fmt::format(", {} bytes", damage.bytes);
    say(damage.parts == 1 ? fmt::format("1 part is damaged and was cut{}: {}", bytes, damage.first)
                          : fmt::format("{} parts are damaged and were cut{}; first: {}", damage.parts, bytes,
                                        damage.first));
  }
  return !recording.events.empty() || recording.lost == 0;
}

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
  const auto options = std::make_shared<SalvageOptions>();
  CLI::App* const command = app.add_subcommand("salvage", kSalvageAbout)->footer(kSalvageExamples);
  command->add_option("FILE", options->file, "A recording")->required()->option_text(" ");
  command->add_option("-o,--output", options->output, "The packed recording; must not be there")
      ->check(is_no_dash())
      ->required()
      ->option_text("FILE");
  return {command, [options] { return run_salvage(*options); }};
}

}  // namespace gpupool::cli
