// SPDX-License-Identifier: Apache-2.0
// gpupool record: runs a program with recording on, and turns the files that it leaves behind into complete
// recordings; or has a process that runs record.
#include <fmt/format.h>

#include <sys/wait.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <optional>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <system_error>
#include <tuple>
#include <utility>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/signals.hpp"
#include "cli/base/utf8.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/processes/process_ends.hpp"
#include "cli/processes/process_recording.hpp"
#include "cli/processes/program.hpp"
#include "cli/recording/recording.hpp"

namespace gpupool::cli {
namespace {

struct RecordOptions {
  std::vector<std::string> program;  // with its arguments; or a process that runs already
  uint64_t pid = 0;
  double seconds = -1;  // of that process; below 0: until ctrl-C, or its end
  std::string output;
  std::string stacks = "language";
  std::string last;  // how much to keep, as a size or a time; "": all
  bool pools_only = false;
};

namespace fs = std::filesystem;

constexpr int kNotFound = 127;

/// Where processes leave their recordings: those of gpupool's pools, and those of the driver's memory.
struct Folders {
  std::string pools;
  std::string driver;   // within the other
  std::string library;  // that records the driver's memory; "": it is not recorded
};

constexpr const char* kInjection = "CUDA_INJECTION64_PATH";

/// The library that the driver shall load into the program. Programs with pools need none.
std::string library_to_inject(const RecordOptions& options) {
  if (options.pools_only) return "";
  const char* const taken = std::getenv(kInjection);
  std::string why;
  try {
    std::string library = find_library_of_ours(kInjectedLibrary);
    if (taken == nullptr || *taken == '\0' || library == taken) return library;
    why = fmt::format("{} is {}, and the driver loads one library only", kInjection, harmless(taken));
  } catch (const InputError& error) {
    why = error.what();
  }
  say(fmt::format("only pools of gpupool are recorded: {}", why));
  return "";
}

Folders make_folders(const RecordOptions& options) {
  Folders made;
  made.library = library_to_inject(options);
  made.pools = make_folder_for(options.output, options.last);
  made.driver = made.pools + "/driver";
  std::error_code error;
  fs::create_directory(made.driver, error);
  if (error) throw InputError(fmt::format("{} cannot be made: {}", made.driver, error.message()));
  return made;
}

void remove_folders(const Folders& folders) {
  (void)rmdir(folders.driver.c_str());
  (void)rmdir(folders.pools.c_str());
}

/// Becomes the program, or exits with the shell's status for a program that cannot run.
[[noreturn]] void become(const RecordOptions& options, const Folders& folders) {
  const std::string name = options.last.empty() ? "/%p" : "/%p,last=" + options.last;
  setenv("GPUPOOL_RECORD", (folders.pools + name).c_str(), 1);
  if (!folders.library.empty()) {
    setenv(kInjection, folders.library.c_str(), 1);
    setenv("GPUPOOL_RECORD_DRIVER", (folders.driver + name).c_str(), 1);
  }
  setenv("GPUPOOL_RECORD_STACKS", options.stacks.c_str(), 1);
  std::vector<char*> words;
  words.reserve(options.program.size() + 1);
  for (const std::string& word : options.program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  say(fmt::format("{} cannot be run: {}", options.program[0], std::strerror(errno)));
  std::_Exit(kNotFound);
}

/// How the shell gives the end of a program.
int status_of(const ProcessEnd& end) {
  return static_cast<int>(end.how == ProcessEnd::How::exited ? end.number : 128 + end.number);
}

/// Whom signals that would end the command are for; 0: nobody any more.
volatile sig_atomic_t running = 0;

constexpr std::initializer_list<int> kPassedOn = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2};

/// The keys of a terminal reach the program too, so the kernel's SIGINT and SIGQUIT are not passed on.
void pass_on(int number, siginfo_t* about, void*) {
  const bool is_key = (number == SIGINT || number == SIGQUIT) && about->si_code > 0;
  const int error = errno;
  if (running != 0 && !is_key) (void)kill(running, number);
  errno = error;
}

/// Starts the program. Who ends this command, ends the program: the recording is still to be packed.
pid_t start(const RecordOptions& options, const Folders& folders) {
  const sigset_t before = block_signals(kPassedOn);
  const pid_t child = fork();
  if (child > 0) {
    running = child;
    struct sigaction action {};
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    for (const int number : kPassedOn) (void)sigaction(number, &action, nullptr);
  }
  (void)sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child == 0) become(options, folders);
  return child;
}

/// That nobody reads any more what is said does not end this command: the recording is still to be packed.
ProcessEnd wait_for(pid_t child, ProcessEnds& ends) {
  std::signal(SIGPIPE, SIG_IGN);
  ends.watch(child);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR)
      throw std::runtime_error(fmt::format("waiting for the program: {}", std::strerror(errno)));
  }
  running = 0;
  return end_of_status(status);
}

/// A file that a process has left: its number, then ".2" if it is of the second program that the process was,
/// then, of a ring, ".old" or ".oom".
struct Part {
  fs::path path;
  bool is_driver;  // of the driver's memory, not of pools
  std::string process;
  std::string program;  // ".2"; "" for the first
  std::string ring;
};

Part part_of(const fs::path& path, bool is_driver) {
  Part part{path, is_driver, path.filename().string(), "", ""};
  const auto take_end = [&](std::string& to) {
    const size_t at = part.process.rfind('.');
    to = part.process.substr(at);
    part.process.resize(at);
  };
  if (part.process.ends_with(kRingSuffixes[0]) || part.process.ends_with(kRingSuffixes[1]))
    take_end(part.ring);
  if (part.process.find('.') != std::string::npos) take_end(part.program);
  return part;
}

/// All parts, those of a process's later programs behind those of its earlier ones.
std::vector<Part> parts_in(const Folders& folders) {
  std::vector<Part> parts;
  for (const std::string* const folder : {&folders.pools, &folders.driver})
    for (const auto& entry : fs::directory_iterator(*folder))
      if (!entry.is_directory()) parts.push_back(part_of(entry.path(), folder == &folders.driver));
  const auto key = [](const Part& part) {
    return std::tuple(part.process, part.is_driver, part.program.size(), part.program, part.ring);
  };
  std::sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) { return key(a) < key(b); });
  return parts;
}

/// How the process of this part ended.
ProcessEnd end_of(const Part& part, const std::vector<Part>& all, pid_t child, const ProcessEnd& childs,
                  const ProcessEnds& ends) {
  const auto is_later = [&](const Part& other) {
    return other.process == part.process && other.is_driver == part.is_driver &&
           std::tuple(other.program.size(), other.program) > std::tuple(part.program.size(), part.program);
  };
  if (std::any_of(all.begin(), all.end(), is_later)) return {ProcessEnd::How::exec, 0};
  if (part.process == std::to_string(child)) return childs;
  const auto process = static_cast<pid_t>(std::stol(part.process));
  if (const std::optional<ProcessEnd> end = ends.of(process)) return *end;
  const bool still_runs = kill(process, 0) == 0;
  return {still_runs ? ProcessEnd::How::still : ProcessEnd::How::unknown, 0};
}

void end_wait(int) {}  // the signal itself ends the wait

int run_record_of_process(const RecordOptions& options) {
  constexpr double kWait = 60;
  // These signals come only while it waits, so a recording that was begun is always ended.
  handle_signals(kEndingSignals, end_wait);
  const sigset_t before = block_signals(kEndingSignals);
  std::signal(SIGPIPE, SIG_IGN);
  const std::string to = options.output.empty() ? fmt::format("{}.gpt", options.pid) : options.output;
  ProcessRecording recording(options.pid, kWait, options.stacks, options.last, to);
  say(fmt::format("process {} is being recorded", options.pid));
  recording.wait_for_end(options.seconds, before);
  std::vector<PackedFile> made;
  if (const std::string trouble = recording.end(made); !trouble.empty()) say(trouble);
  for (const PackedFile& each : made) (void)report_packed(each.name, each.damage);
  return 0;
}

/// What the driver gives to a process with pools is in a file of its own.
std::string name_of(const Part& part, const std::vector<Part>& all, const RecordOptions& options) {
  const std::string program = fs::path(options.program[0]).filename().string();
  const bool is_of_several = all.front().process != all.back().process;
  const auto is_of_pools = [&](const Part& other) {
    return other.process == part.process && !other.is_driver;
  };
  const bool has_pools = std::any_of(all.begin(), all.end(), is_of_pools);
  std::string name =
      options.output.empty() ? fmt::format("{}.{}.gpt", program, part.process) : options.output;
  if (!options.output.empty() && is_of_several) name += "." + part.process;
  if (part.is_driver && has_pools) name += ".driver";
  return name + part.program + part.ring;
}

void say_why_nothing(const std::string& program) {
  say("the program has made no pool and allocated nothing by CUDA, so nothing was recorded");
  if (const std::string why = why_out_of_reach(path_of_program(program)); !why.empty())
    say(fmt::format("{} {}", harmless(program), why));
}

int run_record(const RecordOptions& options) {
  if (options.pid != 0) return run_record_of_process(options);
  if (options.program.empty()) throw InputError("record takes a program, after --, or --pid");
  const Folders folders = make_folders(options);
  ProcessEnds ends({folders.pools, folders.driver});
  const pid_t child = start(options, folders);
  if (child < 0) {
    remove_folders(folders);
    throw std::runtime_error(fmt::format("no process can be started: {}", std::strerror(errno)));
  }
  const ProcessEnd end = wait_for(child, ends);
  const std::vector<Part> made = parts_in(folders);
  bool is_packed = true;
  bool is_any_there = false;
  for (const Part& part : made) {
    const std::string to = name_of(part, made, options);
    try {
      Damage damage;
      pack_recording(part.path.string(), to, damage, end_of(part, made, child, end, ends));
      is_any_there = report_packed(to, damage) || is_any_there;
      fs::remove(part.path);
    } catch (const std::exception& error) {
      // It stays, as nobody will run the program for it again: gpupool salvage reads it.
      say(fmt::format("{}; what was recorded is in {}", error.what(), part.path.string()));
      is_packed = false;
    }
  }
  remove_folders(folders);
  if (const int status = status_of(end); status != 0) return status;
  if (made.empty()) say_why_nothing(options.program[0]);
  return is_packed && is_any_there ? 0 : 1;
}

constexpr const char* kRecordAbout =
    "Run a program, or join one, and record its mallocs and frees\n\n"
    "Runs a program and records every malloc and free of its pools to a file,\n"
    "which the other commands read. Where NVIDIA's CUPTI is, what the CUDA driver gives\n"
    "to a program without gpupool is recorded too, or beside its pools (FILE.driver).\n"
    "Each process is recorded, as is what it becomes by exec (FILE.2), and how the\n"
    "program ended; what is written survives a kill. With --pid, records a process that\n"
    "runs already, until ctrl-C: one of yours, with GPUPOOL_CONTROL=1 in its environment.\n"
    "With --last, keeps the newest events: FILE has the last of them and FILE.old those\n"
    "before. When a malloc fails for the first time, what led to it stays in FILE.oom.\n";

constexpr const char* kRecordExamples =
    "Examples:\n"
    "  gpupool record -- python train.py\n"
    "  gpupool record -o serve.gpt --stacks all -- ./server --port 80\n"
    "  gpupool record -o serve.gpt --last 10min -- ./server     or --last 512MiB; for days on end\n"
    "  gpupool record --pid 4711 --seconds 10 -o now.gpt\n"
    "  gpupool leaks train.gpt\n"
    "\n"
    "Exit status: the program's own; 1 if nothing was recorded. A signal counts as 128 and its number. With "
    "--pid:\n"
    "0 if there is a recording; 1 the process failed to, or did not answer; 2 bad input.";

}  // namespace

Command add_record(CLI::App& app) {
  auto [command, options, made] =
      new_command<RecordOptions>(app, "record", kRecordAbout, kRecordExamples, run_record);
  CLI::Option* const program =
      command.add_option("PROGRAM", options.program, "What to run, after --")->option_text("...");
  CLI::Option* const pid = command.add_option("--pid", options.pid, "Which process to record instead")
                               ->check(is_positive())
                               ->excludes(program)
                               ->option_text("N");
  command.add_option("--seconds", options.seconds, "How long to record that process")
      ->check(between(0.01, 1e8))
      ->needs(pid)
      ->option_text("S [until ctrl-C]");
  command.add_option("-o,--output", options.output, "The recording; must not be there")
      ->check(is_no_dash())
      ->option_text("FILE [PROGRAM.PID.gpt]");
  command.add_option("--stacks", options.stacks, "Which stacks to record of where a malloc is called")
      ->check(CLI::IsMember({"none", "native", "language", "all"}))
      ->option_text("none|native|language|all [language]");
  command.add_option("--last", options.last, "How many of the newest events to keep, in bytes or time")
      ->option_text("512MiB|10min [all]");
  command
      .add_flag("--pools-only", options.pools_only,
                "Leave CUPTI, which has one user in a process, to a profiler")
      ->excludes(pid);
  return made;
}

}  // namespace gpupool::cli
