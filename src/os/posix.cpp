// SPDX-License-Identifier: Apache-2.0
// What Linux and macOS have in common.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "os/clock.hpp"
#include "os/files.hpp"
#include "os/library.hpp"
#include "os/posix.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"

namespace gpupool::internal::os {

uint64_t process_id() noexcept {
  return static_cast<uint64_t>(getpid());
}

uint64_t user_id() noexcept {
  return geteuid();
}

void kill_process() noexcept {
  for (;;) kill(getpid(), SIGKILL);
}

void watch_fork(ForkHook before, ForkHook in_parent, ForkHook in_child) noexcept {
  pthread_atfork(before, in_parent, in_child);
}

// ---- threads

namespace {

/// What runs at a thread's end where the process has no key left: the compiler's way, which needs none. It
/// comes a little sooner, before the destructors of keys.
class Ending {
 public:
  constexpr Ending() = default;
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() {
    for (Call& call : calls_) {
      if (call.run != nullptr) std::exchange(call.run, nullptr)(call.data);
    }
  }

  void set(void (*run)(void*), void* data) noexcept {
    for (Call& call : calls_) {
      if (call.run != run && call.run != nullptr) continue;
      call = {run, data};
      return;
    }
  }

 private:
  struct Call {
    void (*run)(void*) = nullptr;
    void* data = nullptr;
  };
  std::array<Call, 4> calls_{};  // there are fewer functions
};
constinit thread_local Ending ending;
constinit thread_local bool has_ending = false;  // a thread that never needed it has no destructor to run

}  // namespace

/// Without a lock or a guard, which a child of fork would inherit taken: where several threads come first,
/// one key stays. Storage outlives a key's destructors, so none is copied.
void at_thread_end(std::atomic<uint64_t>& key, void (*run)(void*), void* data, size_t) noexcept {
  uint64_t known = key.load(std::memory_order_acquire);
  if (known == kNoKey) {
    pthread_key_t created{};
    if (has_ending || pthread_key_create(&created, run) != 0) {
      has_ending = true;
      return ending.set(run, data);
    }
    if (key.compare_exchange_strong(known, created)) {
      known = created;
    } else {
      pthread_key_delete(created);
    }
  }
  pthread_setspecific(static_cast<pthread_key_t>(known), data);
}

bool HelperThread::start(const char* name, void* (*run)(void*), void* with) noexcept {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_t thread{};
  pthread_sigmask(SIG_SETMASK, &all, &before);
  errno = pthread_create(&thread, nullptr, run, with);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (errno != 0) return false;
  name_thread(thread, name);
  handle_ = (uintptr_t)thread;  // NOLINT: a number or a pointer
  return true;
}

bool HelperThread::is_this() const noexcept {
  return pthread_equal((pthread_t)handle_, pthread_self()) != 0;  // NOLINT
}

void HelperThread::join() noexcept {
  pthread_join((pthread_t)handle_, nullptr);  // NOLINT
}

void HelperThread::detach() noexcept {
  pthread_detach((pthread_t)handle_);  // NOLINT
}

// ---- files

bool keep_file(int number, KeptFile& file) noexcept {
  constexpr int kFirst = 3;
  if (number >= 0 && number < kFirst) {
    const int higher = fcntl(number, F_DUPFD_CLOEXEC, kFirst);
    const int cause = errno;
    (void)close(number);
    errno = cause;
    number = higher;
  }
  if (number < 0) return false;
  struct stat seen {};
  if (fstat(number, &seen) != 0) {
    const int cause = errno;
    (void)close(number);
    errno = cause;
    return false;
  }
  file = {number, static_cast<uint64_t>(seen.st_dev), static_cast<uint64_t>(seen.st_ino)};
  return true;
}

bool is_kept(const KeptFile& file) noexcept {
  struct stat seen {};
  return file.number >= 0 && fstat(file.number, &seen) == 0 &&
         static_cast<uint64_t>(seen.st_dev) == file.device &&
         static_cast<uint64_t>(seen.st_ino) == file.inode;
}

void close_kept(KeptFile& file) noexcept {
  if (is_kept(file)) (void)close(file.number);
  file = {};
}

bool may_be_as_large(uint64_t bytes) noexcept {
  rlimit limit{};
  const bool may = getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes;
  if (!may) errno = EFBIG;
  return may;
}

bool append_to_file(const char* path, const char* text, size_t bytes) noexcept {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  const int file = open(path, kFlags, 0600);
  if (file < 0) return false;
  struct stat seen {};
  const bool is_done = fstat(file, &seen) == 0 &&
                       may_be_as_large(static_cast<uint64_t>(seen.st_size) + bytes) &&
                       ::write(file, text, bytes) == static_cast<ssize_t>(bytes);
  (void)close(file);
  return is_done;
}

bool replace_file(const char* from, const char* to) noexcept {
  return std::rename(from, to) == 0;
}

bool is_there(const char* path) noexcept {
  struct stat seen {};
  return lstat(path, &seen) == 0;
}

bool whole_path(const char* path, char* whole, size_t room) noexcept {
  whole[0] = '\0';
  if (path[0] != '/' && getcwd(whole, room) == nullptr) return false;
  const size_t used = std::strlen(whole);
  const int length = std::snprintf(whole + used, room - used, used == 0 ? "%s" : "/%s", path);
  if (static_cast<size_t>(length) < room - used) return true;
  errno = ENAMETOOLONG;
  return false;
}

// ---- the clock

void write_time(char* text, size_t room) noexcept {
  timespec now{};
  tm parts{};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  (void)gmtime_r(&now.tv_sec, &parts);
  (void)std::snprintf(text, room, "%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ", parts.tm_year + 1900,
                      parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                      now.tv_nsec / 1000);
}

// ---- libraries

void* open_library(const char* name, const char*& reason) noexcept {
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  reason = dlerror();
  if (reason == nullptr) reason = name;
  return nullptr;
}

void* find_symbol(void* library, const char* name) noexcept {
  return dlsym(library, name);
}

void* find_in_process(const char* name) noexcept {
  return dlsym(RTLD_DEFAULT, name);
}

}  // namespace gpupool::internal::os
