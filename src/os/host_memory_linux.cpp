// SPDX-License-Identifier: Apache-2.0
#include "os/host_memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

namespace gpupool::internal::os {
namespace {

constexpr uint64_t kNone = ~uint64_t{0};

/// The lines of a file of the system's; none if it cannot be read.
class Lines {
 public:
  explicit Lines(const std::string& path) noexcept : file_(std::fopen(path.c_str(), "re")) {}
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  ~Lines() {
    if (file_ != nullptr) std::fclose(file_);
  }

  bool next(std::string_view& line) noexcept {
    if (file_ == nullptr || std::fgets(text_, sizeof text_, file_) == nullptr) return false;
    line = std::string_view(text_, std::strcspn(text_, "\n"));
    return true;
  }

 private:
  std::FILE* file_;
  char text_[8192];  // a line of mountinfo has two paths
};

/// The number that a text begins with; kNone for "max", and for no number.
uint64_t number_in(std::string_view text) {
  uint64_t number = 0;
  return std::sscanf(std::string(text).c_str(), "%" SCNu64, &number) == 1 ? number : kNone;
}

uint64_t number_of_file(const std::string& path) {
  std::string_view line;
  return Lines(path).next(line) ? number_in(line) : kNone;
}

/// The number behind a word that begins a line; kNone if there is no such line.
uint64_t number_behind(const std::string& path, std::string_view word) {
  Lines lines(path);
  for (std::string_view line; lines.next(line);) {
    if (line.starts_with(word)) return number_in(line.substr(word.size()));
  }
  return kNone;
}

/// A part of a text that is separated by `separator`, from 0; "" if there are fewer.
std::string_view part_of(std::string_view text, char separator, size_t number) noexcept {
  for (; number != 0; --number) {
    const size_t at = text.find(separator);
    if (at == std::string_view::npos) return {};
    text.remove_prefix(at + 1);
  }
  return text.substr(0, text.find(separator));
}

bool has_part(std::string_view list, std::string_view part) noexcept {
  return ("," + std::string(list) + ",").find("," + std::string(part) + ",") != std::string::npos;
}

/// How one version of control groups tells of memory. Its pages of files, which the kernel gives up first,
/// count as used there and as available in /proc/meminfo.
struct Groups {
  const char* filesystem;
  const char* controller;  // in the group's line of /proc/self/cgroup; "": none
  const char* limits[2];
  const char* used;
  const char* idle_files;
};

constexpr Groups kGroups[] = {
    {"cgroup2", "", {"/memory.max", "/memory.high"}, "/memory.current", "inactive_file "},
    {"cgroup",
     "memory",
     {"/memory.limit_in_bytes", "/memory.limit_in_bytes"},
     "/memory.usage_in_bytes",
     "total_inactive_file "},
};

/// Lowers `memory` to what one group leaves.
void apply_group(const Groups& groups, const std::string& folder, HostMemory& memory) {
  const uint64_t limit =
      std::min(number_of_file(folder + groups.limits[0]), number_of_file(folder + groups.limits[1]));
  if (limit == kNone) return;
  memory.total = std::min(memory.total, limit);
  const uint64_t used = number_of_file(folder + groups.used);
  if (used == kNone) return;
  uint64_t idle = number_behind(folder + "/memory.stat", groups.idle_files);
  if (idle == kNone) idle = 0;
  const uint64_t taken = used - std::min(used, idle);
  memory.available = std::min(memory.available, limit - std::min(limit, taken));
}

/// Where this version's groups are mounted, and in `at` what of the groups is there.
std::string find_mount(const Groups& groups, const std::string& root, std::string& at) {
  Lines lines(root + "/proc/self/mountinfo");
  for (std::string_view line; lines.next(line);) {
    const size_t middle = line.find(" - ");
    if (middle == std::string_view::npos) continue;
    const std::string_view rest = line.substr(middle + 3);
    if (part_of(rest, ' ', 0) != groups.filesystem) continue;
    if (*groups.controller != '\0' && !has_part(part_of(rest, ' ', 2), groups.controller)) continue;
    at = part_of(line, ' ', 3);
    return std::string(part_of(line, ' ', 4));
  }
  return {};
}

/// The process's group, as a path from where `at` of the groups is mounted. A container may see its own group
/// at the mount, and not know its path.
std::string find_group(const Groups& groups, const std::string& root, const std::string& at) {
  Lines lines(root + "/proc/self/cgroup");
  for (std::string_view line; lines.next(line);) {
    const std::string_view controllers = part_of(line, ':', 1);
    if (*groups.controller == '\0' ? !controllers.empty() : !has_part(controllers, groups.controller))
      continue;
    std::string path(line.substr(line.find(':', line.find(':') + 1) + 1));
    if (at.size() > 1) {
      const bool is_below = path.starts_with(at) && (path.size() == at.size() || path[at.size()] == '/');
      path = is_below ? path.substr(at.size()) : "";
    }
    return path == "/" || path.starts_with("/..") ? "" : path;
  }
  return {};
}

/// Each group lies in another one, up to the mount, and has no more than that.
void apply_groups(const Groups& groups, const std::string& root, HostMemory& memory) {
  std::string at;
  const std::string mount = find_mount(groups, root, at);
  if (mount.empty()) return;
  std::string group = find_group(groups, root, at);
  for (;;) {
    apply_group(groups, root + mount + group, memory);
    if (group.empty()) return;
    group.erase(group.rfind('/'));
  }
}

/// RLIMIT_MEMLOCK is not among them: drivers of GPUs lock pages by themselves, and its usual 8 MiB would
/// forbid what works.
void apply_limits(const std::string& root, HostMemory& memory) {
  std::string_view line;
  Lines lines(root + "/proc/self/statm");
  if (!lines.next(line)) return;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto apply = [&](auto which, size_t field) {
    rlimit limit{};
    const uint64_t pages = number_in(part_of(line, ' ', field));
    if (pages == kNone || getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    memory.available = std::min(memory.available, limit.rlim_cur - std::min(limit.rlim_cur, pages * page));
  };
  apply(RLIMIT_AS, 0);
  apply(RLIMIT_DATA, 5);
}

}  // namespace

bool read_host_memory(HostMemory& memory, const char* root) noexcept {
  try {
    const std::string info = std::string(root) + "/proc/meminfo";
    const uint64_t total = number_behind(info, "MemTotal:");
    const uint64_t available = number_behind(info, "MemAvailable:");
    if (total == kNone || available == kNone) return false;
    HostMemory found{total * 1024, available * 1024};
    for (const Groups& groups : kGroups) apply_groups(groups, root, found);
    apply_limits(root, found);
    memory = found;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace gpupool::internal::os
