// SPDX-License-Identifier: Apache-2.0
// gpupool trim, snapshot, sleep and wake: a running process does something with its pools.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/base/library.hpp"
#include "cli/base/out_file.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/base/utf8.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/processes/control.hpp"
#include "cli/processes/control_snapshot.hpp"
#include "cli/processes/whole.hpp"

namespace gpupool::cli {
namespace {

/// The options of all these commands, and those of only some.
struct ControlOptions {
  uint64_t pid = 0;
  uint64_t pool = 0;  // 0: see tag
  std::string tag;    // "": all pools
  double wait = 0;    // seconds; 0: as said below
  bool json = false;
  std::string keep;     // trim: bytes of each pool; "": nothing free
  bool report = false;  // snapshot
  std::string output = "-";
  bool save = false;  // sleep; the default
  bool drop = false;
  bool hold_mallocs = false;
  std::string bytes;           // sleep: what to give back; "": all
  bool retain_backup = false;  // wake
  double timeout = 0;          // seconds
  bool whole = false;          // sleep and wake
  std::string who;             // a number, or with it a name
  std::string gpu;             // all on it; "": see who
};

constexpr double kAnswerWait = 60;
// The driver copies some 2 GiB in a second.
constexpr double kWholeWait = 600;

constexpr const char* kTrimAbout =
    "Make a process give free memory of its pools back\n\n"
    "Asks a running process to give free memory of its pools back to the device.\n"
    "It must be one of yours, with GPUPOOL_CONTROL=1 in its environment.\n";

constexpr const char* kTrimExamples =
    "Examples:\n"
    "  gpupool trim 4711\n"
    "  gpupool trim 4711 --tag kv_cache --keep 2GiB\n"
    "\n"
    "Exit status: 0 it was done; 1 the process failed to, or did not answer; 2 bad input, such as a process\n"
    "that takes no commands.";

constexpr const char* kSnapshotAbout =
    "List what is mapped in a process's pools, and what is in it\n\n"
    "Asks a running process what is mapped in its pools, and what is in it: a line of\n"
    "JSON for each pool. It must be one of yours, with GPUPOOL_CONTROL=1 in its environment.\n";

constexpr const char* kSnapshotExamples =
    "The file is readable by its owner only, and replaces one that is there once it is whole.\n"
    "\n"
    "Examples:\n"
    "  gpupool snapshot 4711 -o now.jsonl\n"
    "  gpupool snapshot 4711 --report";

constexpr const char* kSleepAbout =
    "Make a process's pools give back all memory, until a wake\n\n"
    "Asks a running process to put pools to sleep: the device gets their memory, until\n"
    "gpupool wake. Nothing may use the memory meanwhile, so the program must be idle. It\n"
    "must be one of yours, with GPUPOOL_CONTROL=1 in its environment.\n"
    "With --bytes the pools stay awake, and give back only so much: cached memory, and then\n"
    "blocks, those of the lowest priority first, then the idlest.\n"
    "With --whole any program that uses CUDA sleeps, with or without gpupool: its pools first, and then\n"
    "the driver (570 or later) takes the rest, contexts and graphs too. It cannot save what NCCL, "
    "multicast,\n"
    "IPC or managed memory share.\n";

constexpr const char* kSleepExamples =
    "All pools fall asleep, or none does. Work that is under way on the device is waited for.\n"
    "\n"
    "Examples:\n"
    "  gpupool sleep 4711\n"
    "  gpupool sleep 4711 --tag kv_cache --drop\n"
    "  gpupool sleep 4711 --tag weights --bytes 6GiB\n"
    "  gpupool sleep llama-server --whole\n"
    "  gpupool sleep --whole --all-of-device 0\n"
    "  gpupool wake 4711";

constexpr const char* kWakeAbout =
    "Bring back the memory of a process's pools, where it was\n\n"
    "Asks a running process to wake its pools: memory comes back to the same addresses,\n"
    "with what was saved. It must be one of yours, with GPUPOOL_CONTROL=1 in its environment.\n"
    "With --whole the driver first brings back a process that slept as a whole, from whatever step it was\n"
    "left at.\n";

constexpr const char* kWakeExamples =
    "Examples:\n"
    "  gpupool wake 4711 --timeout 30\n"
    "  gpupool wake 4711 --tag weights\n"
    "  gpupool wake 4711 --whole";

NewCommand<ControlOptions> add_control(CLI::App& app, const char* name, const char* about,
                                       const char* examples, std::function<int(ControlOptions&)> run) {
  const NewCommand<ControlOptions> added =
      new_command<ControlOptions>(app, name, about, examples, std::move(run));
  auto& [command, options, made] = added;
  const bool can_be_whole = examples == kSleepExamples || examples == kWakeExamples;
  if (can_be_whole) {
    command.add_option("PID", options.who, "The process; with --whole also by its name")->option_text(" ");
  } else {
    command.add_option("PID", options.pid, "The process")->required()->check(is_positive())->option_text(" ");
  }
  CLI::Option* const tag =
      command.add_option("--tag", options.tag, "Only pools of this name")
          ->check([](const std::string& text) { return std::string(text.empty() ? "a tag has a name" : ""); })
          ->option_text("NAME [all]");
  pool_option(command, options.pool, "Only the pool of this number, as gpupool top --json has it")
      ->excludes(tag);
  command.add_option("--wait", options.wait, "How long to wait for the answer")
      ->check(between(0.01, 86400.0))
      ->option_text(can_be_whole ? "S [60; 600 with --whole]" : "S [60]");
  return added;
}

CLI::Option* add_whole(CLI::App& command, ControlOptions& options) {
  return command.add_flag("--whole", options.whole,
                          "The whole process, by the driver, once its pools are done");
}

ControlRequest request_of(ControlCommand which, const ControlOptions& options) {
  ControlRequest request;
  request.command = which;
  request.pool = options.pool;
  request.tag = options.tag;
  request.timeout = options.timeout;
  if (!options.keep.empty()) request.bytes = parse_bytes(options.keep, "--keep");
  if (which == ControlCommand::sleep) {
    request.mode = options.drop ? GPUPOOL_SLEEP_MODE_DROP : GPUPOOL_SLEEP_MODE_SAVE;
    request.flags = GPUPOOL_SLEEP_FLAG_SYNC_CONTEXT;
    if (options.hold_mallocs) request.flags |= GPUPOOL_SLEEP_FLAG_HOLD_MALLOCS;
    if (!options.bytes.empty()) request.bytes = parse_bytes(options.bytes, "--bytes");
  }
  if (which == ControlCommand::wake && options.retain_backup)
    request.flags = GPUPOOL_SLEEP_FLAG_RETAIN_BACKUP;
  return request;
}

/// Asks, and throws if it was not done.
ControlReply carry_out(ControlCommand which, const ControlOptions& options) {
  const ControlRequest request = request_of(which, options);
  Control process(options.pid, options.wait != 0 ? options.wait : kAnswerWait);
  ControlReply reply = process.ask(request);
  if (reply.message.empty()) return reply;
  const std::string words = fmt::format("process {}: {}", options.pid, reply.message);
  if (is_callers_fault(reply.status)) throw InputError(words);
  throw std::runtime_error(words);
}

std::string pools_text(uint64_t count) {
  return fmt::format("{} pool{}", count, count == 1 ? "" : "s");
}

std::string contents_text(const ControlReply& reply, const char* copied, const char* lost) {
  std::string text = fmt::format(", contents of {} {}, of {} {}", format_bytes(reply.saved), copied,
                                 format_bytes(reply.dropped), lost);
  if (reply.retained != 0)
    text += fmt::format("; {} of it did not reach the device, because somebody else holds it",
                        format_bytes(reply.retained));
  return text;
}

/// Of a sleep with --bytes.
std::string target_text(uint64_t wanted, const ControlReply& reply) {
  if (reply.released == 0) return "nothing to give back";
  const std::string released = format_bytes(reply.released);
  return (reply.released < wanted ? fmt::format("only {} of {} given back", released, format_bytes(wanted))
                                  : released + " given back") +
         contents_text(reply, "saved", "dropped");
}

std::string words_of(ControlCommand which, const ControlRequest& request, const ControlReply& reply) {
  if (reply.pools == 0) return "it has no pool";
  if (which == ControlCommand::trim) {
    return fmt::format("{} given back by {} of {}", format_bytes(reply.released), reply.changed_pools,
                       pools_text(reply.pools));
  }
  const bool sleeps = which == ControlCommand::sleep;
  if (sleeps && request.bytes != 0) return target_text(request.bytes, reply);
  if (!sleeps && reply.changed_pools == 0 && reply.created != 0) {
    return fmt::format("{} taken for blocks that slept in awake pools", format_bytes(reply.created)) +
           contents_text(reply, "restored", "lost");
  }
  if (reply.changed_pools == 0) {
    return fmt::format("nothing to do: {} {} already", pools_text(reply.pools), sleeps ? "asleep" : "awake");
  }
  std::string text = fmt::format("{} {}: ", pools_text(reply.changed_pools), sleeps ? "asleep" : "awake");
  text += sleeps ? fmt::format("{} given back", format_bytes(reply.released))
                 : fmt::format("{} taken", format_bytes(reply.created));
  return text + contents_text(reply, sleeps ? "saved" : "restored", sleeps ? "dropped" : "lost");
}

/// Of sleep and wake. Sets the number of a process that is not put to sleep as a whole.
void check_who(ControlOptions& options) {
  if (options.who.empty() == options.gpu.empty()) {
    throw InputError(options.gpu.empty() ? "PID is required"
                                         : "either PID or --all-of-device says which processes, not both");
  }
  if (options.whole) return;
  const std::string wrong = is_positive()(options.who);
  if (!wrong.empty()) throw InputError("PID: " + wrong + "; a name needs --whole");
  options.pid = number_of(options.who);
}

int run_command(ControlCommand which, const char* name, const ControlOptions& options) {
  const ControlReply reply = carry_out(which, options);
  if (!options.json) {
    fmt::print("process {}: {}, in {:.4g} s\n", options.pid,
               words_of(which, request_of(which, options), reply), reply.seconds);
    return 0;
  }
  nlohmann::ordered_json object = {{"pid", options.pid},
                                   {"command", name},
                                   {"pools", reply.pools},
                                   {"changed_pools", reply.changed_pools}};
  if (which != ControlCommand::wake) object["released_bytes"] = reply.released;
  if (which != ControlCommand::trim) {
    object["saved_bytes"] = reply.saved;
    object["dropped_bytes"] = reply.dropped;
  }
  if (which == ControlCommand::sleep) object["retained_bytes"] = reply.retained;
  if (which == ControlCommand::wake) object["created_bytes"] = reply.created;
  object["seconds"] = reply.seconds;
  print_json(object);
  return 0;
}

std::string whole_text(bool sleeps, const WholeResult& done) {
  std::string text = sleeps ? "asleep as a whole" : "awake as a whole";
  if (!done.changed) text += " already";
  if (!done.pools) return text;
  text += fmt::format("; {} of its {} pools {}: ", done.pools->changed_pools, done.pools->pools,
                      sleeps ? "slept first" : "woken");
  return text + (sleeps ? fmt::format("{} given back, contents of {} saved",
                                      format_bytes(done.pools->released), format_bytes(done.pools->saved))
                        : fmt::format("{} taken", format_bytes(done.pools->created)));
}

void print_whole(bool sleeps, uint64_t pid, const WholeResult& done, double seconds, bool json) {
  if (!json) {
    std::string gpu;
    if (done.gpu_bytes) gpu = fmt::format("; it had {} on the GPU", format_bytes(*done.gpu_bytes));
    fmt::print("process {}: {}{}, in {:.4g} s\n", pid, whole_text(sleeps, done), gpu, seconds);
    return;
  }
  nlohmann::ordered_json object = {
      {"pid", pid}, {"command", sleeps ? "sleep" : "wake"}, {"whole", true}, {"changed", done.changed}};
  object["pools"] = done.pools ? done.pools->pools : 0;
  object["changed_pools"] = done.pools ? done.pools->changed_pools : 0;
  if (!done.pools) object["why_no_pools"] = valid_utf8(done.why_no_pools);
  if (done.gpu_bytes) object["gpu_bytes"] = *done.gpu_bytes;
  object["seconds"] = seconds;
  print_json(object);
}

void run_whole_process(ControlCommand which, const ControlOptions& options, uint64_t pid) {
  const bool sleeps = which == ControlCommand::sleep;
  const ControlRequest pools = request_of(which, options);
  const double limit = options.wait != 0 ? options.wait : kWholeWait;
  const auto start = std::chrono::steady_clock::now();
  if (sleeps) say_limits(pid);
  const WholeResult done =
      sleeps ? sleep_whole(pid, pools, limit) : wake_whole(pid, pools, limit, options.timeout);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print_whole(sleeps, pid, done, seconds.count(), options.json);
  if (done.pools && !done.pools->message.empty() && !sleeps)
    throw std::runtime_error(
        fmt::format("process {} runs, and its pools sleep: {}", pid, done.pools->message));
}

/// The exit status: 1 if one of several could not be put to sleep, in words that were said.
int run_whole(ControlCommand which, const ControlOptions& options) {
  if (options.gpu.empty()) {
    run_whole_process(which, options, find_own_process(options.who));
    return 0;
  }
  const std::vector<uint64_t> pids = own_processes_on(options.gpu);
  if (pids.empty()) throw InputError(fmt::format("no process of yours is on GPU {}", options.gpu));
  int status = 0;
  for (const uint64_t pid : pids) {
    try {
      run_whole_process(which, options, pid);
    } catch (const std::runtime_error& error) {
      say(error.what());
      status = 1;
    }
  }
  return status;
}

int run_sleep_or_wake(ControlCommand which, const char* name, ControlOptions& options) {
  check_who(options);
  return options.whole ? run_whole(which, options) : run_command(which, name, options);
}

int run_snapshot(const ControlOptions& options) {
  OutFile output(options.output);
  const ControlReply reply = carry_out(ControlCommand::snapshot, options);
  output.write(text_of_snapshot(reply.file.get(), options.pid, options.report));
  output.close();
  return 0;
}

}  // namespace

Command add_trim(CLI::App& app) {
  auto [command, options, made] = add_control(app, "trim", kTrimAbout, kTrimExamples,
                                              std::bind_front(run_command, ControlCommand::trim, "trim"));
  command.add_option("--keep", options.keep, "What each pool keeps at most")
      ->option_text("BYTES [nothing free]");
  json_flag(command, options.json);
  return made;
}

Command add_snapshot(CLI::App& app) {
  auto [command, options, made] =
      add_control(app, "snapshot", kSnapshotAbout, kSnapshotExamples, run_snapshot);
  output_option(command, options.output);
  command.add_flag("--report", options.report, "Write in words what each pool holds, and who holds it");
  return made;
}

Command add_sleep(CLI::App& app) {
  auto [command, options, made] =
      add_control(app, "sleep", kSleepAbout, kSleepExamples,
                  std::bind_front(run_sleep_or_wake, ControlCommand::sleep, "sleep"));
  CLI::Option* const drop =
      command.add_flag("--drop", options.drop, "Drop contents, except those of blocks that are to be kept");
  command.add_flag("--save", options.save, "Save contents in host memory; the default")->excludes(drop);
  CLI::Option* const hold =
      command.add_flag("--hold-mallocs", options.hold_mallocs,
                       "Let mallocs of the process wait for the wake; else they fail with ASLEEP");
  CLI::Option* const bytes =
      command.add_option("--bytes", options.bytes, "What to give back, while the pools stay awake")
          ->excludes(hold)
          ->option_text("BYTES [all]");
  CLI::Option* const whole = add_whole(command, options)->excludes(bytes);
  command
      .add_option("--all-of-device", options.gpu, "All processes of yours on this GPU, as NVML numbers it")
      ->needs(whole)
      ->option_text("N|GPU-...");
  json_flag(command, options.json);
  return made;
}

Command add_wake(CLI::App& app) {
  auto [command, options, made] =
      add_control(app, "wake", kWakeAbout, kWakeExamples,
                  std::bind_front(run_sleep_or_wake, ControlCommand::wake, "wake"));
  command.add_option("--timeout", options.timeout, "How long the process waits for memory that others hold")
      ->check(between(0.0, 3600.0))
      ->option_text("S [0]");
  command.add_flag("--retain-backup", options.retain_backup,
                   "Keep page-locked memory, which makes the next sleep fast");
  (void)add_whole(command, options);
  json_flag(command, options.json);
  return made;
}

}  // namespace gpupool::cli
