// SPDX-License-Identifier: Apache-2.0
// gpupool bench: how fast cached mallocs and frees are, beside two yardsticks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/measure/bench_cases.hpp"
#include "cli/measure/mixed_sizes.hpp"
#include "cli/measure/workers.hpp"

namespace gpupool::cli {
namespace {

struct BenchOptions {
  std::string device = "auto";
  std::vector<int> threads = {1, 2, 4};
  double seconds = 0.2;
  bool json = false;
};

/// Odd, so that the median is one of the values.
constexpr size_t kRepeats = 7;

/// The yardsticks get this share of the case's own time.
constexpr double kYardstickShare = 0.25;

/// Larger mallocs of the C library are system calls and no yardstick.
constexpr uint64_t kMaxLibcSize = uint64_t{64} << 10;

/// Nanoseconds over all repeats, sorted.
using Times = std::vector<double>;

double median(const Times& times) {
  return times[times.size() / 2];
}

struct Timings {
  CaseInfo info;
  Times own;
  Times mutex;
  Times libc;
};

/// Runs the case and the yardsticks in turn, so that a drift in the machine's speed affects all of them.
Timings measure(const BenchCase& bench_case, double seconds) {
  const BenchCase mutex = mutex_case();
  const BenchCase libc = libc_case(std::min(bench_case.info.size, kMaxLibcSize));
  const double slice = seconds / static_cast<double>(kRepeats);
  const uint64_t count = calibrate(bench_case.run, slice);
  const uint64_t mutex_count = calibrate(mutex.run, slice * kYardstickShare);
  const uint64_t libc_count = calibrate(libc.run, slice * kYardstickShare);
  Timings row{bench_case.info, {}, {}, {}};
  for (size_t repeat = 0; repeat < kRepeats; ++repeat) {
    row.own.push_back(bench_case.run(count));
    row.mutex.push_back(mutex.run(mutex_count));
    row.libc.push_back(libc.run(libc_count));
  }
  for (Times* times : {&row.own, &row.mutex, &row.libc}) std::sort(times->begin(), times->end());
  return row;
}

nlohmann::ordered_json to_json(const Timings& row, const gpupool_device_info_t& device) {
  return {
      {"case", row.info.name},
      {"device", device_label(device)},
      {"size", row.info.size},
      {"threads", row.info.threads},
      {"live_blocks", row.info.live_blocks},
      {"sizes", row.info.sizes},
      {"floor", is_floor(row.info.size, row.info.sizes)},
      {"ns", round_to(median(row.own), 2)},
      {"ns_min", round_to(row.own.front(), 2)},
      {"ns_max", round_to(row.own.back(), 2)},
      {"mutex_ns", round_to(median(row.mutex), 2)},
      {"libc_ns", round_to(median(row.libc), 2)},
      {"repeats", kRepeats},
  };
}

std::vector<std::string> to_cells(const Timings& row) {
  return {
      fmt::format("{}{}", is_floor(row.info.size, row.info.sizes) ? "floor: " : "", row.info.name),
      fmt::format("{}{}", row.info.sizes > 1 ? "up to " : "", format_bytes(row.info.size)),
      std::to_string(row.info.threads),
      row.info.live_blocks == 0 ? "-" : format_count(row.info.live_blocks),
      fmt::format("{:.1f}", median(row.own)),
      fmt::format("{:.1f}", row.own.front()),
      fmt::format("{:.1f}", row.own.back()),
      fmt::format("{:.1f}", median(row.mutex)),
      fmt::format("{:.1f}", median(row.libc)),
      fmt::format("{:.2f}", median(row.own) / median(row.mutex)),
  };
}

Table make_table() {
  return Table({{"case", Table::Align::left},
                {"size"},
                {"threads"},
                {"live blocks"},
                {"ns"},
                {"min"},
                {"max"},
                {"mutex ns"},
                {"libc ns"},
                {"ns/mutex"}});
}

int run_bench(const BenchOptions& options) {
  const gpupool_device_info_t device = find_device(options.device);
  configure_data(device, false);
  const std::vector<CaseMaker> cases = all_cases(config_for(device), options.threads);
  Table table = make_table();
  Progress progress;
  progress.begin("bench", cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const Timings row = measure(cases[i](), options.seconds);
    if (options.json) {
      progress.clear();
      print_json(to_json(row, device));
    } else {
      table.add(to_cells(row));
    }
    progress.set(i + 1);
  }
  progress.clear();
  if (!options.json) {
    fmt::print("device {} ({}); nanoseconds, median, least and most of {} repeats\n\n", device_label(device),
               device.name, kRepeats);
    table.print();
  }
  return 0;
}

constexpr const char* kBenchAbout =
    "Measure how long a malloc and a free take\n\n"
    "Measures mallocs and frees that the pool can serve from memory that it\n"
    "holds, in nanoseconds, beside two yardsticks of the same run: lock and\n"
    "unlock of a mutex that nobody else wants, and malloc and free of the C\n"
    "library, of the same size but at most 64 KiB.\n";

constexpr const char* kBenchExamples =
    "Cases:\n"
    "  pair               malloc and free of one block, again and again\n"
    "  pair_recorded      the same while it goes into a recording: half of what it takes longer is an event\n"
    "  pair_own_streams   the same by several threads, each on its own stream; ns as a thread sees it\n"
    "  pair_one_stream    the same with all threads on one stream\n"
    "  streams_in_turn_N  malloc and free on N streams in turn\n"
    "  wandering_N        8 threads, each time with any of 8 sizes on any of N streams\n"
    "  sizes_in_turn_N    malloc and free of N sizes in turn\n"
    "  pair_parked        malloc, free and gpupool_park_stream: a stream that may end at any time\n"
    "  free_elsewhere     one thread allocates and another frees; free_elsewhere_8: 8 sizes in turn\n"
    "  ring               the same without the pool: a pointer is handed to another thread\n"
    "  churn              a random one of many live blocks is freed and replaced by one of another\n"
    "                     size; ns for the free and the malloc together\n"
    "A floor has one small size alone, and programs have many.\n"
    "\n"
    "Examples:\n"
    "  gpupool bench\n"
    "  gpupool bench --threads 1,2,4,8 --seconds 1\n"
    "  gpupool bench --device sim --json > bench.jsonl";

}  // namespace

Command add_bench(CLI::App& app) {
  auto [command, options, made] =
      new_command<BenchOptions>(app, "bench", kBenchAbout, kBenchExamples, run_bench);
  device_option(command, options.device);
  command.add_option("--threads", options.threads, "Numbers of threads for the cases with several")
      ->delimiter(',')
      ->check(CLI::Range(1, 256))
      ->option_text("N,N,... [1,2,4]");
  command.add_option("--seconds", options.seconds, "How long to measure each row")
      ->check(between(0.001, 3600.0))
      ->option_text("S [0.2]");
  json_flag(command, options.json);
  return made;
}

}  // namespace gpupool::cli
