// SPDX-License-Identifier: Apache-2.0
#include "cli/processes/program.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <vector>

#include "cli/base/library.hpp"
#include "cli/base/process_files.hpp"
#include "gpupool/gpupool.h"

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

namespace gpupool::cli {
namespace {

/// Whether others than its owner, root and our own group can write what is there.
bool is_open_to_others(const struct stat& about) {
  const bool is_sticky_folder = S_ISDIR(about.st_mode) && (about.st_mode & S_ISVTX) != 0;
  const bool is_of_group = (about.st_mode & S_IWGRP) != 0 && about.st_gid != 0 && about.st_gid != getegid();
  return !is_sticky_folder && ((about.st_mode & S_IWOTH) != 0 || is_of_group);
}

std::string folder_of_file(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

/// The file, its folder, or one around it, that others could have changed; "": none. The folders around may
/// be anybody's, since in a container even the system's are.
std::string find_open_to_others(const std::string& file) {
  int steps = 0;
  for (std::string path = file;; path = folder_of_file(path), ++steps) {
    if (path.empty()) path = "/";
    struct stat about {};
    const bool is_known = stat(path.c_str(), &about) == 0;
    const bool is_ours = about.st_uid == 0 || about.st_uid == geteuid() || steps > 1;
    if (!is_known || !is_ours || is_open_to_others(about)) return path;
    if (path == "/") return "";
  }
}

std::string real_path(const std::string& path) {
  char* const found = realpath(path.c_str(), nullptr);
  std::string text = found != nullptr ? found : "";
  std::free(found);
  return text;
}

Elf64_Half own_machine() {
  Elf64_Ehdr header{};
  const std::string begin = read_begin(AT_FDCWD, "/proc/self/exe", sizeof header);
  if (begin.size() == sizeof header) std::memcpy(&header, begin.data(), sizeof header);
  return header.e_machine;
}

/// Whether it has a loader, which is what loads the driver too.
bool is_dynamic(const std::string& file, const Elf64_Ehdr& header) {
  for (size_t number = 0; number < header.e_phnum; ++number) {
    Elf64_Phdr part{};
    const size_t at = header.e_phoff + number * sizeof part;
    if (at > file.size() || file.size() - at < sizeof part) return true;  // not known
    std::memcpy(&part, file.data() + at, sizeof part);
    if (part.p_type == PT_INTERP) return true;
  }
  return false;
}

/// Whether the system runs it in secure mode, in which loaders and drivers leave out what the environment
/// says.
bool has_other_rights(const std::string& path, const struct stat& about) {
  const bool has_groups_rights = (about.st_mode & S_ISGID) != 0 && (about.st_mode & S_IXGRP) != 0;
  return ((about.st_mode & S_ISUID) != 0 && about.st_uid != getuid()) ||
         (has_groups_rights && about.st_gid != getgid()) ||
         (getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0);
}

}  // namespace

std::string path_of_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const folders = std::getenv("PATH");
  std::istringstream all(folders != nullptr ? folders : "/bin:/usr/bin");
  for (std::string folder; std::getline(all, folder, ':');) {
    const std::string path = (folder.empty() ? "." : folder) + "/" + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return name;
}

std::string why_out_of_reach(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return "";
  if (has_other_rights(path, about))
    return "runs with other rights than its user's, so that settings may not reach it";
  const std::string file = read_begin(AT_FDCWD, path.c_str(), 16384);
  Elf64_Ehdr header{};
  if (file.size() < sizeof header || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0) return "";
  std::memcpy(&header, file.data(), sizeof header);
  if (header.e_ident[EI_CLASS] == ELFCLASS32)
    return "is of 32 bits, so that no library of 64 bits can be loaded into it";
  if (header.e_machine != own_machine())
    return "is for another kind of processor, so that nothing can be loaded into it";
  return is_dynamic(file, header) ? "" : "is linked statically, so that it cannot load a CUDA driver";
}

std::string find_library_of_ours(const char* name) {
  std::vector<std::string> folders;
  Dl_info about{};
  if (dladdr(reinterpret_cast<void*>(&gpupool_version_string), &about) != 0 && about.dli_fname != nullptr)
    folders.push_back(folder_of_file(real_path(about.dli_fname)));
  const std::string own = folder_of_file(real_path("/proc/self/exe"));
  folders.push_back(own);
  folders.push_back(own + "/../lib");
  for (const std::string& folder : folders) {
    const std::string path = real_path(folder + "/" + name);
    if (path.empty()) continue;
    const std::string open = find_open_to_others(path);
    if (open.empty()) return path;
    throw InputError(fmt::format("{} is not loaded: {} can be changed by others", path, open));
  }
  throw InputError(fmt::format("{} is missing: it belongs beside libgpupool", name));
}

std::string why_no_hooks() {
#ifdef __GLIBC__
  // An auditor is told of what `-z now` binds since this release.
  constexpr int kLeastMinor = 35;
  const char* const version = gnu_get_libc_version();
  int major = 0;
  int minor = 0;
  if (std::sscanf(version, "%d.%d", &major, &minor) == 2 &&
      (major > 2 || (major == 2 && minor >= kLeastMinor)))
    return "";
  return fmt::format("they need glibc 2.{}, and this is {}", kLeastMinor, version);
#else
  return "they need glibc, and this is another C library";
#endif
}

}  // namespace gpupool::cli
