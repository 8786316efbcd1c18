// SPDX-License-Identifier: Apache-2.0
#include "share/exporter.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

#include "base/defer.hpp"

// The oldest system that packages are built on has no name for this call.
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace gpupool::internal::share {
namespace {

/// The PID namespace that a file ns/pid of /proc stands for; 0: this process may not know.
uint64_t space_of(const char* file) noexcept {
  struct stat found {};
  return stat(file, &found) == 0 ? found.st_ino : 0;
}

bool read_number(std::string_view text, int& number) noexcept {
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  return error == std::errc{} && end == last;
}

/// Whether /proc numbers processes as this process does: a container may still have its host's.
bool is_proc_ours() noexcept {
  char text[32];
  const ssize_t length = readlink("/proc/self", text, sizeof text);
  int self = 0;
  return length > 0 && read_number({text, static_cast<size_t>(length)}, self) && self == getpid();
}

/// How a process is numbered by its own namespace: the last number of the line NSpid; 0: unknown.
int inner_number(const std::string& folder) {
  const File file(open((folder + "/status").c_str(), O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t length = file ? read(file.get(), text, sizeof text) : 0;
  std::string_view line(text, length > 0 ? static_cast<size_t>(length) : 0);
  constexpr std::string_view kLabel = "\nNSpid:";
  const size_t begin = line.find(kLabel);
  if (begin == std::string_view::npos) return 0;
  line.remove_prefix(begin + 1);
  line = line.substr(0, line.find('\n'));
  int number = 0;
  return read_number(line.substr(line.find_last_of(" \t") + 1), number) ? number : 0;
}

/// The number that a process of a namespace below has in this one; 0: there is none that this process may
/// look at. Takes two system calls for each process of the system.
int number_here(const ProcessName& name) {
  if (!is_proc_ours()) return 0;
  DIR* const all = opendir("/proc");
  if (all == nullptr) return 0;
  const Defer close_it([&] { closedir(all); });
  while (const dirent* entry = readdir(all)) {
    int number = 0;
    if (!read_number(entry->d_name, number)) continue;
    const std::string folder = std::string("/proc/") + entry->d_name;
    if (space_of((folder + "/ns/pid").c_str()) == name.space && inner_number(folder) == name.pid)
      return number;
  }
  return 0;
}

}  // namespace

ProcessName own_name() noexcept {
  return {getpid(), space_of("/proc/self/ns/pid")};
}

Status open_process(const ProcessName& name, File& process) {
  const uint64_t own_space = own_name().space;
  const bool is_near = name.space == own_space || name.space == 0 || own_space == 0;
  const int here = is_near ? name.pid : number_here(name);
  if (here == 0) {
    return fail(
        GPUPOOL_ERROR_UNAVAILABLE,
        "process %d, which exported the block, is in a PID namespace that this process does not see, or "
        "has ended",
        name.pid);
  }
  process = File(static_cast<int>(syscall(SYS_pidfd_open, here, 0)));
  if (process) return kSuccess;
  if (errno == ENOSYS) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "sharing memory between processes needs Linux 5.6 or later");
  }
  if (errno == ESRCH || errno == EINVAL) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "process %d, which exported the block, has ended", name.pid);
  }
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "process %d cannot be reached: %s", name.pid, std::strerror(errno));
}

}  // namespace gpupool::internal::share
