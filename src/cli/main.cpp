// SPDX-License-Identifier: Apache-2.0
// The gpupool command: its options, its help and its exit status.
//
//   0   all went well
//   1   a failed allocation, an inconsistency, or the library failed
//   2   bad input: an unknown option or device, a broken trace
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <numeric>
#include <string_view>
#include <vector>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/system.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/control_commands.hpp"
#include "cli/commands/machine_commands.hpp"
#include "cli/commands/option_checks.hpp"
#include "cli/commands/watch_commands.hpp"

namespace gpupool::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kBadInput = 2;

constexpr const char* kAbout =
    "gpupool: one pool of GPU memory for programs in any language.\n\n"
    "This command shows what the library sees on this machine, replays recorded workloads\n"
    "through a pool, and measures how fast the pool is. It needs no GPU: where there is none,\n"
    "everything runs on a simulated H200.\n";

constexpr const char* kToTry =
    "  gpupool info                        what is there, and why CUDA is not available\n"
    "  gpupool replay lm_train.trace.gz    how much memory a recorded workload takes\n"
    "  gpupool bench                       how long a malloc and a free take\n";

constexpr const char* kMore =
    "  gpupool replay --help               all about one command\n"
    "\n"
    "Exit status: 0 all went well; 1 a failed allocation, an inconsistency or an error of the\n"
    "library; 2 bad input (option, device or trace).";

constexpr const char* kInfoAbout =
    "Shows the version of the library, what it can do, every device with\n"
    "its memory, and, where CUDA cannot be used, why.\n";

constexpr const char* kInfoExamples =
    "Examples:\n"
    "  gpupool info\n"
    "  gpupool info --device cuda:0\n"
    "  gpupool info --json | jq '.unavailable'";

constexpr const char* kReplayAbout =
    "Plays recorded workloads through a pool: how much memory did it need,\n"
    "how long did it take, what did it ask of the driver. A trace is read\n"
    "and checked first, then played several times in one pool: the first\n"
    "pass pays for memory, later ones show a pool that is warm. After each\n"
    "pass everything is freed and the pool's records are checked.\n";

constexpr const char* kReplayExamples =
    "A trace is a text file, possibly packed with gzip, with one event a line; - is standard input:\n"
    "  # comment\n"
    "  a ID BYTES STREAM   block ID is allocated; each number of a stream becomes a real stream\n"
    "  f ID                block ID is freed, on the stream it was allocated for\n"
    "It has at most 67,108,864 lines of at most 4,096 characters.\n"
    "\n"
    "What is printed:\n"
    "  live peak       most bytes live at once, each block rounded up to 512\n"
    "  reserved peak   most physical memory that the pool held; over live: how tight it was\n"
    "  cap/live        smallest limit, in live peaks, with which the trace completes (--find-cap)\n"
    "  ns/event        time of the host for one malloc or free; with --data, writing and checking too\n"
    "  driver calls    calls of the driver in that pass, and the time that they took: measured on\n"
    "  driver time     CUDA, at the prices of an H200 on the simulated device\n"
    "  host waits      times that the host waited for the GPU\n"
    "  failed          allocations that failed\n"
    "\n"
    "Examples:\n"
    "  gpupool replay --device sim *.trace.gz\n"
    "  gpupool replay --cap 1.05x lm_train.trace.gz         does it fit into 5 % more than is live?\n"
    "  gpupool replay --find-cap --json lm_serve.trace.gz   what is the least it fits into?\n"
    "  gpupool replay --device cuda:0 --data my.trace       is every block left alone?\n"
    "  make_trace | gpupool replay -                        a trace that is no file\n"
    "\n"
    "Exit status: 0 all went well; 1 an allocation failed or something was inconsistent; 2 bad input.";

constexpr const char* kBenchAbout =
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
    "  wandering_N        several threads, each on any of N streams\n"
    "  sizes_in_turn_N    malloc and free of N sizes in turn\n"
    "  pair_parked        malloc, free and gpupool_park_stream: a stream that may end at any time\n"
    "  free_elsewhere     one thread allocates and another frees\n"
    "  ring               the same without the pool: a pointer is handed to another thread\n"
    "  churn              a random one of many live blocks is freed and replaced by one of another\n"
    "                     size; ns for the free and the malloc together\n"
    "\n"
    "Examples:\n"
    "  gpupool bench\n"
    "  gpupool bench --threads 1,2,4,8 --seconds 1\n"
    "  gpupool bench --device sim --json > bench.jsonl";

constexpr const char* kDeviceHelp =
    "auto (CUDA where there is a usable GPU, else sim), cuda, cuda:N, sim, sim:N, N";

CLI::App* add_info(CLI::App& app, InfoOptions& options) {
  CLI::App* command = app.add_subcommand("info", kInfoAbout);
  command->footer(kInfoExamples);
  command->add_option("--device", options.device, "Only this one: cuda:N, sim:N, ...")
      ->option_text("NAME [all]");
  command->add_flag("--json", options.json, kJsonHelp);
  return command;
}

CLI::App* add_replay(CLI::App& app, ReplayOptions& options) {
  CLI::App* command = app.add_subcommand("replay", kReplayAbout);
  command->footer(kReplayExamples);
  command->add_option("FILE", options.files, "Traces, as text or gzip")->required()->option_text("...");
  command->add_option("--device", options.device, kDeviceHelp)->option_text("NAME [auto]");
  command->add_option("--passes", options.passes, "How often to play each trace in the same pool")
      ->check(CLI::Range(1, 1000000))
      ->option_text("N [2]");
  command
      ->add_option("--cap", options.cap, "Limit the pool: bytes (or 10GiB), or a multiple of the live peak")
      ->option_text("BYTES|1.05x");
  command->add_flag("--find-cap", options.find_cap,
                    "Also find the smallest cap that completes, to 0.1 % of the live peak");
  command->add_flag("--data", options.data, "Write every block and check it before it is freed; slow on sim");
  command->add_flag("--pace", options.paced,
                    "Spread each pass over the time the recorded program took: virtual time on sim");
  command
      ->add_option("--slack", options.slack,
                   "Reserve this much more to save driver calls: 0.1 is 10 %; -1: always tight")
      ->option_text("X");
  command->add_option("--max-chunk", options.max_chunk, "Size of the pool's largest chunk, such as 32MiB")
      ->option_text("BYTES");
  command
      ->add_option("--mode", options.mode,
                   "vmm: chunks mapped where they are needed; driver: the driver's malloc")
      ->check(CLI::IsMember({"auto", "vmm", "driver"}))
      ->option_text("auto|vmm|driver");
  command->add_flag("--json", options.json, kJsonHelp);
  return command;
}

CLI::App* add_bench(CLI::App& app, BenchOptions& options) {
  CLI::App* command = app.add_subcommand("bench", kBenchAbout);
  command->footer(kBenchExamples);
  command->add_option("--device", options.device, kDeviceHelp)->option_text("NAME [auto]");
  command->add_option("--threads", options.threads, "Numbers of threads for the cases with several")
      ->delimiter(',')
      ->check(CLI::Range(1, 256))
      ->option_text("N,N,... [1,2,4]");
  command->add_option("--seconds", options.seconds, "How long to measure each row")
      ->check(between(0.001, 3600.0))
      ->option_text("S [0.2]");
  command->add_flag("--json", options.json, kJsonHelp);
  return command;
}

/// How many letters must be added, taken away or changed to make one word of the other.
size_t distance(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t changed = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// If the first argument looks like a command but is not one, says so, and suggests the right one.
void refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  constexpr size_t kMaxDistance = 2;
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word.empty() || word.front() == '-') return;
  std::string names;
  std::string nearest;
  size_t least = kMaxDistance + 1;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string name = command->get_name();
    const size_t letters = distance(word, name);
    if (letters == 0) return;
    if (letters < std::min(least, name.size())) {
      least = letters;
      nearest = fmt::format("; did you mean {}?", name);
    }
    names += (names.empty() ? "" : ", ") + name;
  }
  if (nearest.empty()) nearest = "; there are " + names;
  throw InputError(fmt::format("there is no command '{}'{}", word.substr(0, 64), nearest));
}

int run(int argc, char** argv) {
  CLI::App app(kAbout, "gpupool");
  app.allow_windows_style_options(false);  // a path that begins with "/" is one there too
  app.footer(fmt::format("Examples:\n{}{}", kToTry, kMore));
  app.set_version_flag("--version", std::string("gpupool ") + gpupool_version_string(),
                       "Print the version of the library");
  app.set_help_flag("--help,-h", "Print this help");
  app.get_formatter()->column_width(30);
  InfoOptions info_options;
  ReplayOptions replay_options;
  BenchOptions bench_options;
  const CLI::App* info = add_info(app, info_options);
  const CLI::App* replay = add_replay(app, replay_options);
  const CLI::App* bench = add_bench(app, bench_options);
  const WatchCommands watch(app);
  const MachineCommands machine(app);
  const ControlCommands control(app);
  refuse_empty_values(app);
  refuse_unknown_command(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadInput;
  }
  if (info->parsed()) return run_info(info_options);
  if (replay->parsed()) return run_replay(replay_options);
  if (bench->parsed()) return run_bench(bench_options);
  if (const std::optional<int> status = watch.run()) return *status;
  if (const std::optional<int> status = machine.run()) return *status;
  if (const std::optional<int> status = control.run()) return *status;
  const std::string words = fmt::format(
      "gpupool: one pool of GPU memory for programs in any language. Try:\n{}gpupool --help says more.\n",
      kToTry);
  (void)std::fputs(words.c_str(), stderr);
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
  gpupool::cli::prepare_streams();
  return gpupool::cli::run_and_explain(argc, argv);
}
