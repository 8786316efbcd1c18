// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "os/clock.hpp"
#include "os/files.hpp"
#include "os/library.hpp"
#include "os/posix.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"

namespace gpupool::internal::os {
namespace {

/// Reads the begin of a file of the system's. Below 0: it cannot be read.
ssize_t read_begin(const char* path, char* text, size_t room) noexcept {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  const ssize_t length = read(file, text, room);
  close(file);
  return length;
}

}  // namespace

// ---- the process

const char* program_name() noexcept {
  return program_invocation_short_name;
}

void read_command_line(char* text, size_t room) noexcept {
  text[std::max<ssize_t>(read_begin("/proc/self/cmdline", text, room - 1), 0)] = '\0';
}

const char* const* environment() noexcept {
  return environ;
}

const char* trusted_environment(const char* name) noexcept {
  return secure_getenv(name);
}

void stay_loaded() noexcept {}  // -z nodelete

// ---- threads

namespace {

constinit thread_local uint32_t own_thread_id = 0;

}  // namespace

/// glibc has gettid() from 2.30 on only, and the wheels run on 2.28.
uint32_t thread_id() noexcept {
  if (own_thread_id == 0) own_thread_id = static_cast<uint32_t>(syscall(SYS_gettid));
  return own_thread_id;
}

void forget_thread_id() noexcept {
  own_thread_id = 0;
}

void read_thread_name(char* text, size_t room) noexcept {
  std::array<char, 16> name{};
  (void)prctl(PR_GET_NAME, name.data());
  (void)std::snprintf(text, room, "%s", name.data());
}

void name_thread(pthread_t thread, const char* name) noexcept {
  pthread_setname_np(thread, name);
}

// ---- libraries, clocks, files

const char* const kCudaLibrary = "libcuda.so.1";

void rest(uint32_t nanoseconds) noexcept {
  const timespec time{0, static_cast<long>(nanoseconds)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

uint64_t coarse_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

bool trusts_processor_clock() noexcept {
  std::array<char, 16> name{};
  const ssize_t length = read_begin("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                                    name.data(), name.size() - 1);
  return length >= 3 && std::string_view(name.data()).starts_with("tsc");
}

const uint64_t kPageBytes = 4096;

int make_sparse_file(uint64_t bytes) noexcept {
  if (!may_be_as_large(bytes)) return -1;
  const int file = memfd_create("gpupool", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) == 0) return file;
  const int cause = errno;
  close(file);
  errno = cause;
  return -1;
}

void punch_hole(int file, uint64_t offset, uint64_t bytes) noexcept {
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
}

namespace {

/// A lock of the open file, which goes with its last descriptor or mapping, however the process ends.
bool lock_part(int file, int command, short type, uint64_t offset, uint64_t bytes,
               struct flock& lock) noexcept {
  lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(offset);
  lock.l_len = static_cast<off_t>(bytes);
  return fcntl(file, command, &lock) == 0;
}

}  // namespace

int open_again(int file) noexcept {
  std::array<char, 32> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", file);
  return open(link.data(), O_RDWR | O_CLOEXEC);
}

bool hold_part(int file, uint64_t offset, uint64_t bytes) noexcept {
  struct flock lock {};
  return lock_part(file, F_OFD_SETLK, F_RDLCK, offset, bytes, lock);
}

bool is_held(int file, uint64_t offset, uint64_t bytes) noexcept {
  struct flock lock {};
  return !lock_part(file, F_OFD_GETLK, F_WRLCK, offset, bytes, lock) || lock.l_type != F_UNLCK;
}

bool allocate_room(int file, uint64_t offset, uint64_t bytes) noexcept {
  if (!may_be_as_large(offset + bytes)) return false;
  do {
    errno = posix_fallocate(file, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (errno == EINTR);
  return errno == 0;
}

bool path_of(int file, char* path, size_t room) noexcept {
  std::array<char, 32> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link.data(), path, room - 1);
  path[std::max<ssize_t>(length, 0)] = '\0';
  return length > 0;
}

}  // namespace gpupool::internal::os
