// SPDX-License-Identifier: Apache-2.0
// gpupool advise: what to change, in words.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/measure/advice.hpp"
#include "cli/recording/recorded_pool.hpp"

namespace gpupool::cli {
namespace {

struct AdviseOptions {
  std::string file;
  uint64_t pool = 0;  // 0: the only one
  bool json = false;
};

int run_advise(const AdviseOptions& options) {
  const Recording recording = read_recording(options.file);
  const uint64_t pool = choose_pool(recording, options.pool);
  Progress progress;
  const std::vector<Advice> advice = advise(recording, pool, progress);
  progress.clear();
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Advice& one : advice) {
      list.push_back({{"kind", one.kind},
                      {"text", one.text},
                      {"saved_bytes", one.saved_bytes},
                      {"saved_ns", one.saved_nanoseconds}});
    }
    print_json({{"file", recording.file}, {"pool", pool}, {"advice", std::move(list)}});
    return 0;
  }
  if (advice.empty()) fmt::print("Nothing would save much: {} is well as it is.\n", recording.file);
  for (size_t i = 0; i < advice.size(); ++i) fmt::print("{}. {}\n", i + 1, advice[i].text);
  return 0;
}

constexpr const char* kAdviseAbout =
    "Say what to change in a program, and what that would save\n\n"
    "Says in words what to change in a program that was recorded, and what that\n"
    "would save, as found by playing the recording again with the change. Says\n"
    "nothing if there is nothing to gain.\n";

constexpr const char* kAdviseExamples =
    "Examples:\n"
    "  gpupool advise train.gpt\n"
    "  gpupool advise train.gpt --json | jq .advice\n"
    "\n"
    "The limits that it names are those of a pool on the simulated device, with an H200's memory.";

}  // namespace

Command add_advise(CLI::App& app) {
  auto [command, options, made] =
      new_command<AdviseOptions>(app, "advise", kAdviseAbout, kAdviseExamples, run_advise);
  file_option(command, options.file);
  pool_option(command, options.pool);
  json_flag(command, options.json);
  return made;
}

}  // namespace gpupool::cli
