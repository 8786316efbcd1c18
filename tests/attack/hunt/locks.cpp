// SPDX-License-Identifier: Apache-2.0
#include "attack/hunt/locks.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>

namespace {

std::atomic<uint64_t> taken{0};

}  // namespace

uint64_t hunt::locks_taken() {
  return taken.load(std::memory_order_relaxed);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

bool hunt::counts_locks() {
  return false;
}

#else

bool hunt::counts_locks() {
  return true;
}

namespace {

using Function = int (*)(pthread_mutex_t*);

Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int take(Function function, pthread_mutex_t* mutex) {
  const int error = function(mutex);
  if (error == 0) taken.fetch_add(1, std::memory_order_relaxed);
  return error;
}

}  // namespace

// Visible, so that libraries find them before the C library's.
extern "C" [[gnu::visibility("default")]] int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static std::atomic<Function> function{nullptr};
  if (function.load() == nullptr) function = next("pthread_mutex_lock");
  return take(function, mutex);
}

extern "C" [[gnu::visibility("default")]] int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  static std::atomic<Function> function{nullptr};
  if (function.load() == nullptr) function = next("pthread_mutex_trylock");
  return take(function, mutex);
}

#endif
