// SPDX-License-Identifier: Apache-2.0
// gpupool record: runs a program with recording on, and turns the files that it leaves behind into complete
// recordings; or has a process that runs record.
#include <fmt/format.h>

#include <sys/wait.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <memory>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/option_checks.hpp"
#include "cli/commands/salvage.hpp"
#include "cli/processes/process_recording.hpp"
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
};

namespace fs = std::filesystem;

constexpr int kNotFound = 127;

/// Becomes the program, or exits with the shell's status for a program that cannot run.
[[noreturn]] void become(const RecordOptions& options, std::string path) {
  if (!options.last.empty()) path += ",last=" + options.last;
  setenv("GPUPOOL_RECORD", path.c_str(), 1);
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

/// Waits for the program, which gets the terminal's signals itself. That nobody reads any more what is said
/// ends nothing either: the recording is still to be packed.
ProcessEnd wait_for(pid_t child) {
  for (const int number : {SIGINT, SIGQUIT, SIGPIPE}) std::signal(number, SIG_IGN);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR)
      throw std::runtime_error(fmt::format("waiting for the program: {}", std::strerror(errno)));
  }
  if (WIFEXITED(status)) return {ProcessEnd::How::exited, static_cast<uint32_t>(WEXITSTATUS(status))};
  return {ProcessEnd::How::signal, static_cast<uint32_t>(WTERMSIG(status))};
}

/// A file that a process has left: its number, then ".2" if it is of the second program that the process was,
/// then, of a ring, ".old" or ".oom".
struct Part {
  fs::path path;
  std::string process;
  std::string program;  // ".2"; "" for the first
  std::string ring;
};

Part part_of(const fs::path& path) {
  Part part{path, path.filename().string(), "", ""};
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

/// The parts of a folder, those of a process's later programs behind those of its earlier ones.
std::vector<Part> parts_in(const std::string& folder) {
  std::vector<Part> parts;
  for (const auto& entry : fs::directory_iterator(folder)) parts.push_back(part_of(entry.path()));
  const auto key = [](const Part& part) {
    return std::tuple(part.process, part.program.size(), part.program, part.ring);
  };
  std::sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) { return key(a) < key(b); });
  return parts;
}

/// How the process of this part ended. Only of its own child does a process learn that.
ProcessEnd end_of(const Part& part, const std::vector<Part>& all, pid_t child, const ProcessEnd& childs) {
  const auto is_later = [&](const Part& other) {
    return other.process == part.process &&
           std::tuple(other.program.size(), other.program) > std::tuple(part.program.size(), part.program);
  };
  if (std::any_of(all.begin(), all.end(), is_later)) return {ProcessEnd::How::exec, 0};
  if (part.process == std::to_string(child)) return childs;
  const bool still_runs = kill(static_cast<pid_t>(std::stol(part.process)), 0) == 0;
  return {still_runs ? ProcessEnd::How::still : ProcessEnd::How::unknown, 0};
}

void end_wait(int) {}  // the signal itself ends the wait

int run_record_of_process(const RecordOptions& options) {
  constexpr double kWait = 60;
  // These signals come only while it waits, so a recording that was begun is always ended.
  sigset_t before;
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    sigaddset(&blocked, number);
    struct sigaction action {};
    action.sa_handler = end_wait;
    (void)sigaction(number, &action, nullptr);
  }
  (void)sigprocmask(SIG_BLOCK, &blocked, &before);
  std::signal(SIGPIPE, SIG_IGN);
  const std::string to = options.output.empty() ? fmt::format("{}.gpt", options.pid) : options.output;
  ProcessRecording recording(options.pid, kWait, options.stacks, options.last, to);
  say(fmt::format("process {} is being recorded", options.pid));
  recording.wait_for_end(options.seconds, before);
  std::vector<PackedFile> made;
  if (const std::string trouble = recording.end(made); !trouble.empty()) say(trouble);
  for (const PackedFile& each : made) report_packed(each.name, each.damage);
  return 0;
}

int run_record(const RecordOptions& options) {
  if (options.pid != 0) return run_record_of_process(options);
  if (options.program.empty()) throw InputError("record takes a program, after --, or --pid");
  const std::string program = fs::path(options.program[0]).filename().string();
  const std::string parts = make_folder_for(options.output, options.last);
  const pid_t child = fork();
  if (child < 0) {
    (void)rmdir(parts.c_str());
    throw std::runtime_error(fmt::format("no process can be started: {}", std::strerror(errno)));
  }
  if (child == 0) become(options, parts + "/%p");
  const ProcessEnd end = wait_for(child);
  const std::vector<Part> made = parts_in(parts);
  const bool is_of_several = !made.empty() && made.front().process != made.back().process;
  bool is_packed = true;
  for (const Part& part : made) {
    std::string to =
        options.output.empty() ? fmt::format("{}.{}.gpt", program, part.process) : options.output;
    if (!options.output.empty() && is_of_several) to += "." + part.process;
    to += part.program + part.ring;
    try {
      Damage damage;
      pack_recording(part.path.string(), to, damage, end_of(part, made, child, end));
      report_packed(to, damage);
      fs::remove(part.path);
    } catch (const std::exception& error) {
      // It stays, as nobody will run the program for it again: gpupool salvage reads it.
      say(fmt::format("{}; what was recorded is in {}", error.what(), part.path.string()));
      is_packed = false;
    }
  }
  (void)rmdir(parts.c_str());
  if (const int status = status_of(end); status != 0) return status;
  if (!is_packed) return 1;
  if (!made.empty()) return 0;
  say("the program has made no pool, so nothing was recorded");
  return 1;
}

constexpr const char* kRecordAbout =
    "Run a program, or join one, and record its mallocs and frees\n\n"
    "Runs a program and records every malloc and free of its pools to a file,\n"
    "which the other commands read. Each process that makes a pool is recorded, as is\n"
    "what it becomes by exec (FILE.2), and how the program ended;\n"
    "what is written survives a kill. With --pid, records a process that runs already,\n"
    "until ctrl-C: one of yours, with GPUPOOL_CONTROL=1 in its environment. With --last,\n"
    "keeps the newest events: FILE has the last of them and FILE.old those before. When\n"
    "a malloc fails for the first time, what led to it stays in FILE.oom.\n";

constexpr const char* kRecordExamples =
    "Examples:\n"
    "  gpupool record -- python train.py\n"
    "  gpupool record -o serve.gpt --stacks all -- ./server --port 80\n"
    "  gpupool record -o serve.gpt --last 10min -- ./server     or --last 512MiB; for days on end\n"
    "  gpupool record --pid 4711 --seconds 10 -o now.gpt\n"
    "  gpupool leaks train.gpt\n"
    "\n"
    "Exit status: the program's own; 1 if it made no pool. A signal counts as 128 and its number. With "
    "--pid:\n"
    "0 if there is a recording; 1 the process failed to, or did not answer; 2 bad input.";

}  // namespace

Command add_record(CLI::App& app) {
  const auto options = std::make_shared<RecordOptions>();
  CLI::App* const command = app.add_subcommand("record", kRecordAbout)->footer(kRecordExamples);
  CLI::Option* const program =
      command->add_option("PROGRAM", options->program, "What to run, after --")->option_text("...");
  CLI::Option* const pid = command->add_option("--pid", options->pid, "Which process to record instead")
                               ->check(is_positive())
                               ->excludes(program)
                               ->option_text("N");
  command->add_option("--seconds", options->seconds, "How long to record that process")
      ->check(between(0.01, 1e8))
      ->needs(pid)
      ->option_text("S [until ctrl-C]");
  command->add_option("-o,--output", options->output, "The recording; must not be there")
      ->check(is_no_dash())
      ->option_text("FILE [PROGRAM.PID.gpt]");
  command->add_option("--stacks", options->stacks, "Which stacks to record of where a malloc is called")
      ->check(CLI::IsMember({"none", "native", "language", "all"}))
      ->option_text("none|native|language|all [language]");
  command->add_option("--last", options->last, "How many of the newest events to keep, in bytes or time")
      ->option_text("512MiB|10min [all]");
  return {command, [options] { return run_record(*options); }};
}

}  // namespace gpupool::cli
