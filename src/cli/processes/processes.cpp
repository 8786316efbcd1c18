// SPDX-License-Identifier: Apache-2.0
#include "cli/processes/processes.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "cli/base/process_files.hpp"

namespace gpupool::cli {
namespace {

/// The program without its folder, and its arguments; the kernel's short name if it has none.
std::string command_of(int process) {
  std::string text = read_begin(process, "cmdline");
  text.erase(text.find_last_not_of('\0') + 1);
  if (text.empty()) {
    text = read_begin(process, "comm");
    return text.substr(0, text.find('\n'));
  }
  const size_t end = text.find('\0');
  const size_t slash = text.rfind('/', end);
  if (slash != std::string::npos) text.erase(0, slash + 1);
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

using FileId = std::pair<dev_t, ino_t>;

constexpr const char* kPageName = "gpupool-stats";

/// Adds the page behind a descriptor of a process, if it is the process's own. A page that a child has
/// inherited tells of its parent.
void add_page(int files, const char* name, uint64_t inner, std::set<FileId>& seen, ShownProcess& process) {
  const OpenFile file(openat(files, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (file.get() < 0 || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return;
  if (seen.contains({about.st_dev, about.st_ino})) return;
  // Read, not mapped: a page that is cut short meanwhile must not end this process.
  const ReadPage read = [&](uint64_t offset, void* to, size_t bytes) {
    return pread(file.get(), to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  };
  try {
    StatsPage page = read_stats_page(read);
    if (page.process != inner) return;
    process.pages.push_back(std::move(page));
  } catch (const PageError& error) {
    process.why_closed = error.what();
  }
  seen.emplace(about.st_dev, about.st_ino);
}

}  // namespace

std::string command_of_process(uint64_t pid) {
  const Folder folder = open_folder(AT_FDCWD, ("/proc/" + std::to_string(pid)).c_str());
  return folder != nullptr ? command_of(dirfd(folder.get())) : "";
}

const std::string& Processes::user_of(uint64_t uid) {
  std::string& name = users_[uid];
  if (!name.empty()) return name;
  name = std::to_string(uid);
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> room{};
  if (getpwuid_r(static_cast<uid_t>(uid), &entry, room.data(), room.size(), &found) == 0 && found != nullptr)
    name = found->pw_name;
  return name;
}

std::vector<ShownProcess> Processes::look(uint64_t only) {
  std::vector<ShownProcess> shown;
  std::set<FileId> seen;
  const Folder all(opendir("/proc"));
  if (all == nullptr) return shown;
  while (const dirent* entry = readdir(all.get())) {
    ShownProcess process;
    process.pid = number_of(entry->d_name);
    if (process.pid == 0 || (only != 0 && process.pid != only)) continue;
    const Folder folder = open_folder(dirfd(all.get()), entry->d_name);
    const Folder files = folder == nullptr ? nullptr : open_folder(dirfd(folder.get()), "fd");
    if (files == nullptr) continue;
    while (const dirent* file = readdir(files.get())) {
      if (!is_memfd(dirfd(files.get()), file->d_name, kPageName)) continue;
      add_page(dirfd(files.get()), file->d_name, inner_number(dirfd(folder.get()), process.pid), seen,
               process);
    }
    if (process.pages.empty() && process.why_closed.empty()) continue;
    struct stat about {};
    if (fstat(dirfd(folder.get()), &about) != 0) continue;
    process.uid = about.st_uid;
    process.user = user_of(process.uid);
    process.command = command_of(dirfd(folder.get()));
    shown.push_back(std::move(process));
  }
  std::sort(shown.begin(), shown.end(),
            [](const ShownProcess& a, const ShownProcess& b) { return a.pid < b.pid; });
  return shown;
}

}  // namespace gpupool::cli
