// SPDX-License-Identifier: Apache-2.0
// Runs a program with recording on, and turns the files it leaves behind into complete recordings.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/commands/salvage.hpp"
#include "cli/commands/watch_commands.hpp"
#include "cli/processes/process_recording.hpp"
#include "cli/recording/recording.hpp"

namespace gpupool::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kNotFound = 127;

/// Becomes the program, or exits with the shell's status for a program that cannot run.
[[noreturn]] void become(const RecordOptions& options, const std::string& path) {
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

/// Waits for the program, which gets the terminal's signals itself. That nobody reads any more what is said
/// ends nothing either: the recording is still to be packed.
int wait_for(pid_t child) {
  for (const int number : {SIGINT, SIGQUIT, SIGPIPE}) std::signal(number, SIG_IGN);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR)
      throw std::runtime_error(fmt::format("waiting for the program: {}", std::strerror(errno)));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
  ProcessRecording recording(options.pid, kWait, options.stacks, to);
  say(fmt::format("process {} is being recorded", options.pid));
  recording.wait_for_end(options.seconds, before);
  Damage damage;
  if (const std::string trouble = recording.end(damage); !trouble.empty()) say(trouble);
  report_packed(to, damage);
  return 0;
}

}  // namespace

int run_record(const RecordOptions& options) {
  if (options.pid != 0) return run_record_of_process(options);
  if (options.program.empty()) throw InputError("record takes a program, after --, or --pid");
  const std::string program = fs::path(options.program[0]).filename().string();
  const std::string parts = make_folder_for(options.output);
  const pid_t child = fork();
  if (child < 0) {
    (void)rmdir(parts.c_str());
    throw std::runtime_error(fmt::format("no process can be started: {}", std::strerror(errno)));
  }
  if (child == 0) become(options, parts + "/%p");
  const int status = wait_for(child);
  std::vector<fs::path> made;
  for (const auto& entry : fs::directory_iterator(parts)) made.push_back(entry.path());
  bool is_packed = true;
  for (const fs::path& part : made) {
    const std::string number = part.filename().string();
    std::string to = options.output.empty() ? fmt::format("{}.{}.gpt", program, number) : options.output;
    if (!options.output.empty() && made.size() > 1) to += "." + number;
    try {
      Damage damage;
      pack_recording(part.string(), to, damage);
      report_packed(to, damage);
      fs::remove(part);
    } catch (const std::exception& error) {
      // It stays, as nobody will run the program for it again: gpupool salvage reads it.
      say(fmt::format("{}; what was recorded is in {}", error.what(), part.string()));
      is_packed = false;
    }
  }
  (void)rmdir(parts.c_str());
  if (status != 0) return status;
  if (!is_packed) return 1;
  if (!made.empty()) return 0;
  say("the program has made no pool, so nothing was recorded");
  return 1;
}

}  // namespace gpupool::cli
