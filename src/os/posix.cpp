// SPDX-License-Identifier: Apache-2.0
// What Linux and macOS have in common.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

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

/// Without a lock or a guard, which a child of fork would inherit taken: where several threads come first,
/// one key stays. Storage outlives a key's destructors, so none is copied.
void at_thread_end(std::atomic<uint64_t>& key, void (*run)(void*), void* data) noexcept {
  uint64_t known = key.load(std::memory_order_acquire);
  if (known == kNoKey) {
    pthread_key_t created{};
    if (pthread_key_create(&created, run) != 0) return;
    if (key.compare_exchange_strong(known, created)) {
      known = created;
    } else {
      pthread_key_delete(created);
    }
  }
  pthread_setspecific(static_cast<pthread_key_t>(known), data);
}

void at_thread_end(void (*run)(void*), void* data, size_t bytes) noexcept {
  (void)bytes;
  static constinit std::atomic<uint64_t> key{kNoKey};
  at_thread_end(key, run, data);
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
