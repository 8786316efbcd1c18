// SPDX-License-Identifier: Apache-2.0
// gpupool leaks: what is live at the end of a recording, and what grows.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/recording/leaks.hpp"

namespace gpupool::cli {
namespace {

struct LeaksOptions {
  std::string file;
  std::string fail_over;
  bool growing = false;
  bool json = false;
  size_t count = 20;
};

std::string where_of(const Recording& recording, const Leak& leak) {
  if (leak.of == Leak::Of::stream) return fmt::format("(stream {:#x}, many sites)", leak.stream);
  return leak.of == Leak::Of::tag ? "(many sites)" : recording.site(leak.stack);
}

void print_table(const Recording& recording, const std::vector<Leak>& leaks, size_t count) {
  using Align = Table::Align;
  Table table({{"bytes"},
               {"blocks"},
               {"since"},
               {"grows by", Align::left},
               {"tag", Align::left},
               {"call site", Align::left}});
  for (size_t i = 0; i < std::min(count, leaks.size()); ++i) {
    const Leak& leak = leaks[i];
    table.add({format_bytes(leak.bytes), std::to_string(leak.blocks),
               leak.blocks == 0 ? "" : fmt::format("{:.3f} s", static_cast<double>(leak.first_ns) / 1e9),
               leak.growth ? leak.growth.words() : "", recording.tag(leak.tag), where_of(recording, leak)});
  }
  table.print();
}

void print_lines(const Recording& recording, const std::vector<Leak>& leaks, size_t count) {
  constexpr std::array<const char*, 3> kNames = {"site", "tag", "stream"};
  for (size_t i = 0; i < std::min(count, leaks.size()); ++i) {
    const Leak& leak = leaks[i];
    const auto stack = recording.stacks.find(leak.stack);
    print_json({{"of", kNames[static_cast<size_t>(leak.of)]},
                {"bytes", leak.bytes},
                {"blocks", leak.blocks},
                {"bytes_per_mark", leak.growth.bytes_per_mark},
                {"bytes_per_second", leak.growth.bytes_per_second},
                {"grown_bytes", leak.growth.bytes},
                {"since_mark", leak.growth.since_mark},
                {"since_ns", leak.blocks != 0 ? leak.first_ns : leak.growth.since_ns},
                {"tag", recording.tag(leak.tag)},
                {"stream", leak.stream},
                {"stack", stack != recording.stacks.end() ? stack->second : ""}});
  }
}

/// What all of one division come to, for the one in which that is most: a tag's blocks are those of sites
/// too.
struct Sum {
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  uint64_t lost = 0;
};

Sum sum_of(const std::vector<Leak>& leaks) {
  std::array<Sum, 3> sums;
  for (const Leak& leak : leaks) {
    Sum& sum = sums[static_cast<size_t>(leak.of)];
    sum.bytes += leak.bytes;
    sum.blocks += leak.blocks;
    sum.lost += leak.lost();
  }
  return *std::max_element(sums.begin(), sums.end(),
                           [](const Sum& a, const Sum& b) { return a.lost < b.lost; });
}

int run_leaks(const LeaksOptions& options) {
  uint64_t allowed = 0;
  if (!options.fail_over.empty() && options.fail_over != "0") {
    allowed = parse_bytes(options.fail_over, "--fail-over");
  }
  const Recording recording = read_recording(options.file);
  std::vector<Leak> leaks = find_leaks(recording);
  if (options.growing) std::erase_if(leaks, [](const Leak& leak) { return !leak.growth; });
  const Sum sum = sum_of(leaks);
  if (options.json) {
    print_lines(recording, leaks, options.count);
  } else if (leaks.empty()) {
    fmt::print("{}\n", options.growing ? "Nothing grows." : "Nothing is live at the end, and nothing grew.");
  } else {
    fmt::print("{} in {} blocks {} at the end of {}{}.\n", format_bytes(sum.bytes), sum.blocks,
               options.growing ? "of what grows are live" : "are live", recording.file,
               recording.is_ended ? "" : ", which is not the program's own end");
    print_table(recording, leaks, options.count);
  }
  if (!options.json && !can_judge_growth(recording))
    fmt::print("Note: with fewer than seven marks and 64 mallocs, nothing is said to grow.\n");
  const std::string missing = recording.what_is_missing();
  for (const std::string& note : {recording.how_it_ended(), missing})
    if (!options.json && !note.empty()) fmt::print("Note: {}.\n", note);
  if (options.json && !missing.empty()) say(fmt::format("{}: {}", recording.file, missing));
  return !options.fail_over.empty() && sum.lost > allowed ? 1 : 0;
}

constexpr const char* kLeaksAbout =
    "List what was live at the end, and what grows\n\n"
    "Lists what was live at the end of a recording, by call site and tag. What\n"
    "grows comes first, also if it was freed at the end: from mark to mark\n"
    "(gpupool_mark, once a step or request), or over time where nobody marks.\n";

constexpr const char* kLeaksExamples =
    "Examples:\n"
    "  gpupool leaks train.gpt\n"
    "  gpupool leaks train.gpt --fail-over 1MiB            for CI: exit status 1 if more is left or grew\n"
    "  gpupool leaks train.gpt --growing --fail-over 1MiB  only what grows counts";

}  // namespace

Command add_leaks(CLI::App& app) {
  auto [command, options, made] =
      new_command<LeaksOptions>(app, "leaks", kLeaksAbout, kLeaksExamples, run_leaks);
  file_option(command, options.file);
  command
      .add_option("--fail-over", options.fail_over, "Exit with status 1 if more bytes are leaked than this")
      ->option_text("BYTES");
  command.add_flag("--growing", options.growing, "Only what grows");
  command.add_option("--count", options.count, "How many sites to list")
      ->check(CLI::Range(1, 100000))
      ->option_text("N [20]");
  json_flag(command, options.json);
  return made;
}

}  // namespace gpupool::cli
