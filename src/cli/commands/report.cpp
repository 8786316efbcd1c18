// SPDX-License-Identifier: Apache-2.0
// gpupool report: recordings in, one HTML file out.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/base/library.hpp"
#include "cli/base/out_file.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/recording/recorded_pool.hpp"
#include "cli/report/page.hpp"

namespace gpupool::cli {
namespace {

struct ReportOptions {
  std::vector<std::string> files;
  std::string output = "report.html";
  uint64_t pool = 0;  // 0: all
  bool no_fit = false;
  bool json = false;
  std::vector<std::string> sources;  // folders
};

/// More pools than this on one page are not useful; --pool chooses.
constexpr size_t kMostPools = 8;

/// The pools on the page, those with the most mallocs first.
std::vector<uint64_t> pools_of(const Recording& recording, uint64_t wanted) {
  if (wanted != 0) return {choose_pool(recording, wanted)};
  std::vector<std::pair<uint64_t, uint64_t>> used;  // mallocs, pool
  for (const auto& [pool, mallocs] : mallocs_by_pool(recording)) used.emplace_back(mallocs, pool);
  if (used.empty()) throw InputError(recording.file + ": nothing was allocated");
  std::sort(used.begin(), used.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  if (used.size() > kMostPools) {
    say(fmt::format("{} has {} pools; the report has the {} with the most mallocs", recording.file,
                    used.size(), kMostPools));
    used.resize(kMostPools);
  }
  std::vector<uint64_t> pools;
  pools.reserve(used.size());
  for (const auto& [mallocs, pool] : used) pools.push_back(pool);
  return pools;
}

/// When the earliest recording was begun, and its file.
using Begin = std::pair<uint64_t, std::string>;

/// Lines of a file that has changed since may be others than those that ran.
void say_changed(const Sources& sources, const Begin& begin) {
  for (const std::string& file : sources.changed_since(begin.first)) {
    say(fmt::format("{} was changed after {} was begun: its lines may be others", file, begin.second));
  }
}

/// Of two recordings one at a time is in memory: what is kept of it is what is shown.
int run_report(const ReportOptions& options) {
  if (options.files.size() > 2) throw InputError("a report is of one recording, or compares two");
  Sources sources(options.sources);
  std::vector<nlohmann::ordered_json> objects;
  std::vector<Chapter> chapters;
  std::vector<std::vector<ComparedPool>> runs;
  std::vector<Begin> begins;
  Progress progress;
  for (const std::string& file : options.files) {
    const Recording recording = read_recording(file);
    begins.emplace_back(recording.start_realtime_ns, file);
    runs.emplace_back();
    for (const uint64_t pool : pools_of(recording, options.pool)) {
      Story story = make_story(recording, pool, !options.no_fit, progress);
      story.sources = &sources;
      runs.back().push_back(comparable(story));
      if (options.json)
        objects.push_back(holders_to_json(story));
      else
        chapters.push_back(chapter_of(story));
    }
  }
  if (options.json) {
    for (const auto& object : objects) print_json(object);
    if (runs.size() == 2) {
      for (const PoolPair& pair : match_pools(runs[0], runs[1])) print_json(comparison_to_json(pair));
    }
    return 0;
  }
  OutFile out(options.output, options.files);
  progress.begin("writing the page", 1);
  const std::string page = page_of(chapters, runs);
  progress.clear();
  out.write(page);
  out.close();
  say_changed(sources, *std::min_element(begins.begin(), begins.end()));
  return 0;
}

constexpr const char* kReportAbout =
    "Write a page for a browser that tells what a recording says\n\n"
    "Writes a page that tells what a recording says: what was live over time,\n"
    "where it lay, who held it, what leaked, and what limit it would fit under.\n"
    "It is one file, which any browser opens without a network. Two recordings\n"
    "are compared.\n";

constexpr const char* kReportExamples =
    "Examples:\n"
    "  gpupool report train.gpt\n"
    "  gpupool report before.gpt after.gpt -o difference.html\n"
    "  gpupool report --json --no-fit train.gpt                who held it, at the peak and at the end\n"
    "  gpupool report --json --no-fit before.gpt after.gpt     and what each call site has more of, or less\n"
    "\n"
    "What it says of the limit comes from playing the recording again on the simulated device; --no-fit\n"
    "leaves that out.";

}  // namespace

Command add_report(CLI::App& app) {
  auto [command, options, made] =
      new_command<ReportOptions>(app, "report", kReportAbout, kReportExamples, run_report);
  command.add_option("FILE", options.files, "A recording, or two to compare")
      ->required()
      ->option_text("[FILE]");
  command.add_option("-o,--output", options.output, "Where to write the page")
      ->option_text("FILE [report.html]");
  pool_option(command, options.pool, "Only this pool, if the recording has several");
  command
      .add_option("--sources", options.sources, "Show the lines that frames name, from files in this folder")
      ->allow_extra_args(false)
      ->option_text("FOLDER ...");
  json_flag(command, options.json)->excludes("--output")->excludes("--sources");
  command.add_flag("--no-fit", options.no_fit,
                   "Do not play the recording again, which takes some seconds: no least limit");
  return made;
}

}  // namespace gpupool::cli
