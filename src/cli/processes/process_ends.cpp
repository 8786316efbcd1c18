// SPDX-License-Identifier: Apache-2.0
#include "cli/processes/process_ends.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace gpupool::cli {
namespace {

/// What Linux 6.15 tells of a process by a descriptor of it. Headers of the system may be older.
struct ProcessInfo {
  uint64_t mask;
  uint64_t cgroup;
  std::array<uint32_t, 11> numbers;  // of processes and users
  int32_t status;
};
static_assert(sizeof(ProcessInfo) == 64);
constexpr uint64_t kHasStatus = 8;
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, ProcessInfo);

OpenFile open_process(pid_t process) {
  return OpenFile(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
}

/// Of a process that its parent has asked for.
std::optional<ProcessEnd> end_of_reaped(int process) {
  ProcessInfo info{};
  info.mask = kHasStatus;
  if (ioctl(process, kGetInfo, &info) != 0 || (info.mask & kHasStatus) == 0) return std::nullopt;
  return end_of_status(info.status);
}

/// Of one that has ended, and its parent has not asked for.
std::optional<ProcessEnd> end_of_zombie(pid_t process) {
  const std::string text = read_begin(AT_FDCWD, ("/proc/" + std::to_string(process) + "/stat").c_str());
  // The name, in brackets, may hold anything. The state comes behind it, and the status comes last.
  const size_t state = text.rfind(") ");
  const std::string_view letter =
      state == std::string::npos ? "" : std::string_view(text).substr(state + 2, 2);
  if (letter != "Z " && letter != "X ") return std::nullopt;  // X: its parent is asking
  const size_t last = text.find_last_of(' ') + 1;
  int status = 0;
  const auto [end, error] = std::from_chars(text.data() + last, text.data() + text.size(), status);
  if (error != std::errc()) return std::nullopt;
  return end_of_status(status);
}

}  // namespace

ProcessEnd end_of_status(int status) {
  if (WIFEXITED(status)) return {ProcessEnd::How::exited, static_cast<uint32_t>(WEXITSTATUS(status))};
  return {ProcessEnd::How::signal, static_cast<uint32_t>(WTERMSIG(status))};
}

ProcessEnds::ProcessEnds(const std::vector<std::string>& folders)
    : files_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  for (const std::string& folder : folders) (void)inotify_add_watch(files_.get(), folder.c_str(), IN_CREATE);
}

void ProcessEnds::watch(pid_t child) {
  const OpenFile program = open_process(child);
  if (program.get() < 0 || files_.get() < 0) return;
  while (!wait(program.get(), -1)) continue;
  (void)wait(program.get(), 0);  // what came last
}

/// Whether the program has ended.
bool ProcessEnds::wait(int program, int timeout) {
  std::vector<pollfd> waited{{program, POLLIN, 0}, {files_.get(), POLLIN, 0}};
  std::vector<pid_t> processes;
  for (const auto& [process, file] : running_) {
    waited.push_back({file.get(), POLLIN, 0});
    processes.push_back(process);
  }
  if (poll(waited.data(), waited.size(), timeout) < 0) return errno != EINTR;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (waited[i + 2].revents != 0) take_end(processes[i]);
  }
  if (waited[1].revents != 0) take_new();
  return waited[0].revents != 0;
}

void ProcessEnds::take_end(pid_t process) {
  std::optional<ProcessEnd> end = end_of_zombie(process);
  if (!end) end = end_of_reaped(running_.at(process).get());
  if (end) ended_[process] = *end;
  running_.erase(process);
}

void ProcessEnds::take_new() {
  alignas(inotify_event) std::array<char, 4096> bytes;
  const ssize_t count = read(files_.get(), bytes.data(), bytes.size());
  for (ssize_t at = 0; at < count;) {
    inotify_event event{};
    std::memcpy(&event, bytes.data() + at, sizeof event);
    const std::string_view name = event.len == 0 ? "" : bytes.data() + at + sizeof event;
    at += static_cast<ssize_t>(sizeof event + event.len);
    // "4711", or of a later program or a ring "4711.2", "4711.old".
    const auto process = static_cast<pid_t>(number_of(name.substr(0, name.find('.'))));
    if (process <= 0 || running_.contains(process)) continue;
    if (OpenFile opened = open_process(process); opened.get() >= 0)
      running_.emplace(process, std::move(opened));
  }
}

std::optional<ProcessEnd> ProcessEnds::of(pid_t process) const {
  const auto found = ended_.find(process);
  return found != ended_.end() ? std::optional(found->second) : std::nullopt;
}

}  // namespace gpupool::cli
