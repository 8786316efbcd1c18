// SPDX-License-Identifier: Apache-2.0
#include "cli/processes/processes.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
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

FileId id_of(const struct stat& about) {
  return {about.st_dev, about.st_ino};
}

// A process whose pages are where they were is not searched again for so long. Its name may be old meanwhile,
// and a page that another copy of the library adds is not seen.
constexpr auto kLongestTrust = std::chrono::seconds(20);

/// Adds the page behind a descriptor of a process, if it is the process's own. A page that a child has
/// inherited tells of its parent. Returns which file it added.
std::optional<FileId> add_page(int folder, const char* name, uint64_t inner, std::set<FileId>& seen,
                               ShownProcess& process) {
  const OpenFile file(openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (file.get() < 0 || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  const FileId id = id_of(about);
  if (seen.contains(id)) return std::nullopt;
  // Read, not mapped: a page that is cut short meanwhile must not end this process.
  const ReadPage read = [&](uint64_t offset, void* to, size_t bytes) {
    return pread(file.get(), to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  };
  try {
    StatsPage page = read_stats_page(read);
    if (page.process != inner) return std::nullopt;
    process.pages.push_back(std::move(page));
  } catch (const PageError& error) {
    process.why_closed = error.what();
  }
  seen.insert(id);
  return id;
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

/// Searches all descriptors of a process. Nothing: it shows no pool, or is closed to us.
std::optional<ShownProcess> Processes::search(int all, const std::string& pid, Seen& seen, Known& known) {
  const Folder folder = open_folder(all, pid.c_str());
  const Folder files = folder == nullptr ? nullptr : open_folder(dirfd(folder.get()), "fd");
  if (files == nullptr) return std::nullopt;
  ShownProcess process;
  process.pid = number_of(pid);
  while (const dirent* file = readdir(files.get())) {
    if (!is_memfd(dirfd(files.get()), file->d_name, wire::stats::kFileName)) continue;
    known.inner = inner_number(dirfd(folder.get()), process.pid);
    if (const auto id = add_page(dirfd(files.get()), file->d_name, known.inner, seen, process))
      known.places.push_back({pid + "/fd/" + file->d_name, *id});
  }
  struct stat about {};
  if (known.places.empty() || fstat(dirfd(folder.get()), &about) != 0) return std::nullopt;
  process.uid = about.st_uid;
  process.user = user_of(process.uid);
  process.command = command_of(dirfd(folder.get()));
  known.process = process;
  known.process.pages.clear();
  // Those that are new together are not all searched together again.
  known.trusted_until = Clock::now() + kLongestTrust * (8 + process.pid % 8) / 16;
  return process;
}

/// Reads the pages of a process where they were. Nothing: it is to be searched, since it may have ended,
/// become another program, or be another process of this number.
std::optional<ShownProcess> Processes::read_again(int all, Seen& seen, const Known& known) {
  if (!known.process.why_closed.empty() || Clock::now() >= known.trusted_until) return std::nullopt;
  ShownProcess process = known.process;
  for (const PagePlace& place : known.places) {
    // Looked at before it is opened: to open a device or a pipe does something to it.
    struct stat about {};
    if (fstatat(all, place.name.c_str(), &about, 0) != 0 || place.file != id_of(about) ||
        add_page(all, place.name.c_str(), known.inner, seen, process) != place.file) {
      for (const PagePlace& each : known.places) seen.erase(each.file);
      return std::nullopt;
    }
  }
  return process;
}

std::vector<ShownProcess> Processes::look(uint64_t only) {
  std::vector<ShownProcess> shown;
  std::map<uint64_t, Known> still;
  Seen seen;
  const Folder all(opendir("/proc"));
  if (all == nullptr) return shown;
  while (const dirent* entry = readdir(all.get())) {
    const uint64_t pid = number_of(entry->d_name);
    if (pid == 0 || (only != 0 && pid != only)) continue;
    std::optional<ShownProcess> process;
    auto known = known_.extract(pid);
    if (!known.empty()) process = read_again(dirfd(all.get()), seen, known.mapped());
    if (process) {
      still.insert(std::move(known));
    } else {
      Known found;
      process = search(dirfd(all.get()), entry->d_name, seen, found);
      if (process) still.emplace(pid, std::move(found));
    }
    if (process) shown.push_back(std::move(*process));
  }
  known_ = std::move(still);
  std::sort(shown.begin(), shown.end(),
            [](const ShownProcess& a, const ShownProcess& b) { return a.pid < b.pid; });
  return shown;
}

}  // namespace gpupool::cli
