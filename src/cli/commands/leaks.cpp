// SPDX-License-Identifier: Apache-2.0
// gpupool leaks: what is live at the end of a recording, and what grows.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/commands/commands.hpp"
#include "cli/recording/leak_sites.hpp"

namespace gpupool::cli {
namespace {

struct LeaksOptions {
  std::string file;
  std::string fail_over;
  bool growing = false;
  bool json = false;
  size_t count = 20;
};

void print_table(const Recording& recording, const std::vector<LeakSite>& sites, size_t count) {
  using Align = Table::Align;
  Table table(
      {{"bytes"}, {"blocks"}, {"a mark"}, {"since"}, {"tag", Align::left}, {"call site", Align::left}});
  for (size_t i = 0; i < std::min(count, sites.size()); ++i) {
    const LeakSite& site = sites[i];
    table.add({format_bytes(site.bytes), std::to_string(site.blocks),
               site.bytes_per_mark == 0 ? "" : "+" + format_bytes(site.bytes_per_mark),
               fmt::format("{:.3f} s", static_cast<double>(site.first_ns) / 1e9), recording.tag(site.tag),
               recording.site(site.stack)});
  }
  table.print();
}

int run_leaks(const LeaksOptions& options) {
  uint64_t allowed = 0;
  if (!options.fail_over.empty() && options.fail_over != "0") {
    allowed = parse_bytes(options.fail_over, "--fail-over");
  }
  const Recording recording = read_recording(options.file);
  std::vector<LeakSite> sites = find_leak_sites(recording);
  if (options.growing) std::erase_if(sites, [](const LeakSite& site) { return site.bytes_per_mark == 0; });
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  for (const LeakSite& site : sites) {
    bytes += site.bytes;
    blocks += site.blocks;
  }
  if (options.json) {
    for (size_t i = 0; i < std::min(options.count, sites.size()); ++i) {
      const LeakSite& site = sites[i];
      const auto stack = recording.stacks.find(site.stack);
      print_json({{"bytes", site.bytes},
                  {"blocks", site.blocks},
                  {"bytes_per_mark", site.bytes_per_mark},
                  {"since_ns", site.first_ns},
                  {"tag", recording.tag(site.tag)},
                  {"stack", stack != recording.stacks.end() ? stack->second : ""}});
    }
  } else if (sites.empty()) {
    fmt::print("{}\n", options.growing ? "Nothing grows from mark to mark." : "Nothing is live at the end.");
  } else {
    fmt::print("{} in {} blocks {} at the end of {}{}.\n", format_bytes(bytes), blocks,
               options.growing ? "of what grows are live" : "are live", recording.file,
               recording.is_ended ? "" : ", which is not the program's own end: it was killed");
    print_table(recording, sites, options.count);
  }
  return !options.fail_over.empty() && bytes > allowed ? 1 : 0;
}

constexpr const char* kLeaksAbout =
    "List what was live at the end, and what grows\n\n"
    "Lists what was live at the end of a recording, by call site and tag; what\n"
    "grows from mark to mark comes first (gpupool_mark, once a step or request).\n";

constexpr const char* kLeaksExamples =
    "Examples:\n"
    "  gpupool leaks train.gpt\n"
    "  gpupool leaks train.gpt --fail-over 1MiB            for CI: exit status 1 if more is live at the "
    "end\n"
    "  gpupool leaks train.gpt --growing --fail-over 1MiB  only what grows from mark to mark counts";

}  // namespace

Command add_leaks(CLI::App& app) {
  const auto options = std::make_shared<LeaksOptions>();
  CLI::App* const command = app.add_subcommand("leaks", kLeaksAbout)->footer(kLeaksExamples);
  command->add_option("FILE", options->file, "A recording")->required()->option_text(" ");
  command
      ->add_option("--fail-over", options->fail_over, "Exit with status 1 if more bytes are leaked than this")
      ->option_text("BYTES");
  command->add_flag("--growing", options->growing, "Only what grows from mark to mark");
  command->add_option("--count", options->count, "How many sites to list")
      ->check(CLI::Range(1, 100000))
      ->option_text("N [20]");
  command->add_flag("--json", options->json, kJsonHelp);
  return {command, [options] { return run_leaks(*options); }};
}

}  // namespace gpupool::cli
