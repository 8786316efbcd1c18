// SPDX-License-Identifier: Apache-2.0
#include <crt_externs.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "os/clock.hpp"
#include "os/files.hpp"
#include "os/library.hpp"
#include "os/posix.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"

namespace gpupool::internal::os {

// ---- the process

const char* program_name() noexcept {
  return getprogname();
}

void read_command_line(char* text, size_t room) noexcept {
  size_t used = 0;
  for (char** each = *_NSGetArgv(); *each != nullptr && used + 1 < room; ++each) {
    const size_t length = strnlen(*each, room - used - 2);
    std::memcpy(text + used, *each, length);
    text[used + length] = '\0';
    used += length + 1;
  }
  text[used] = '\0';
}

const char* const* environment() noexcept {
  return *_NSGetEnviron();
}

const char* trusted_environment(const char* name) noexcept {
  return issetugid() == 0 ? getenv(name) : nullptr;
}

void stay_loaded() noexcept {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&stay_loaded), &self) != 0)
    (void)dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

// ---- threads

uint32_t thread_id() noexcept {
  uint64_t number = 0;
  (void)pthread_threadid_np(nullptr, &number);
  return static_cast<uint32_t>(number);
}

void forget_thread_id() noexcept {}

void read_thread_name(char* text, size_t room) noexcept {
  text[0] = '\0';
  (void)pthread_getname_np(pthread_self(), text, room);
}

/// Only the thread itself could.
void name_thread(pthread_t, const char*) noexcept {}

// ---- libraries, clocks, files

const char* const kCudaLibrary = "libcuda.dylib";

void rest(uint32_t nanoseconds) noexcept {
  const timespec time{0, static_cast<long>(nanoseconds)};
  nanosleep(&time, nullptr);
}

uint64_t coarse_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

/// The system does not say.
bool trusts_processor_clock() noexcept {
  return false;
}

const uint64_t kPageBytes = 16384;

/// In the folder for temporary files: memory without a name has a fixed size here. A file system that
/// allows no file of that size makes a smaller one.
int make_sparse_file(uint64_t bytes) noexcept {
  constexpr uint64_t kLeast = uint64_t{1} << 42;
  const char* const folder = trusted_environment("TMPDIR");
  std::array<char, MAXPATHLEN> path{};
  std::snprintf(path.data(), path.size(), "%s/gpupool-XXXXXX", folder != nullptr ? folder : "/tmp");
  const int file = mkstemp(path.data());
  if (file < 0) return -1;
  (void)unlink(path.data());
  (void)fcntl(file, F_SETFD, FD_CLOEXEC);
  for (; bytes >= kLeast; bytes /= 2) {
    if (may_be_as_large(bytes) && ftruncate(file, static_cast<off_t>(bytes)) == 0) return file;
  }
  const int cause = errno;
  close(file);
  errno = cause;
  return -1;
}

void punch_hole(int file, uint64_t offset, uint64_t bytes) noexcept {
  fpunchhole_t hole{0, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)};
  (void)fcntl(file, F_PUNCHHOLE, &hole);
}

// Memory between processes is for Linux only.

int open_again(int) noexcept {
  return -1;
}

bool hold_part(int, uint64_t, uint64_t) noexcept {
  return false;
}

bool is_held(int, uint64_t, uint64_t) noexcept {
  return false;
}

bool allocate_room(int file, uint64_t offset, uint64_t bytes) noexcept {
  if (!may_be_as_large(offset + bytes)) return false;
  fstore_t room{F_ALLOCATEALL, F_PEOFPOSMODE, 0, static_cast<off_t>(bytes), 0};
  if (fcntl(file, F_PREALLOCATE, &room) < 0 && errno != ENOTSUP) return false;
  return ftruncate(file, static_cast<off_t>(offset + bytes)) == 0;
}

bool path_of(int file, char* path, size_t room) noexcept {
  std::array<char, MAXPATHLEN> found{};
  if (fcntl(file, F_GETPATH, found.data()) < 0) return false;
  return std::snprintf(path, room, "%s", found.data()) < static_cast<int>(room);
}

}  // namespace gpupool::internal::os
