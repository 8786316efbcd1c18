// SPDX-License-Identifier: Apache-2.0
// fork in the middle of another thread's very first call of the library, at every step where it can be
// stopped: each allocation, each hook registration, each thread-local storage key. The child makes a first
// call too, and never waits for a thread that it does not have.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <gpupool/torch.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/check.h"

// The step at which the first call stops; -1 before it begins and in children, which count none.
static atomic_int steps_left = -1;
static atomic_int is_stopped;
static sem_t stopped;
static sem_t go_on;

// At the chosen step: lets the other thread fork, and goes on when it has, or when that has to wait for a
// lock that is held here, as it should.
static void step(void) {
  if (atomic_load(&steps_left) < 0 || atomic_fetch_sub(&steps_left, 1) != 0) return;
  atomic_store(&is_stopped, 1);
  sem_post(&stopped);
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 50 * 1000 * 1000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  while (sem_timedwait(&go_on, &until) != 0 && errno == EINTR) {
  }
}

// What the library calls, in place of the C library's own.
#pragma GCC visibility push(default)

extern void* __libc_malloc(size_t size);

void* malloc(size_t size) {
  step();
  return __libc_malloc(size);
}

int pthread_key_create(pthread_key_t* key, void (*destructor)(void*)) {
  static int (*next)(pthread_key_t*, void (*)(void*));
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "pthread_key_create");
  step();
  return next(key, destructor);
}

int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void* object) {
  static int (*next)(void (*)(void), void (*)(void), void (*)(void), void*);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "__register_atfork");
  step();
  return next(prepare, parent, child, object);
}

#pragma GCC visibility pop

static void use_the_library(void) {
  gpupool_config_t config = config_for(0);
  config.backend = GPUPOOL_BACKEND_SIM;
  gpupool_t* pool = NULL;
  gpupool_ptr_t block = 0;
  OK(gpupool_create(&config, &pool));
  OK(gpupool_malloc(pool, 4096, 0, &block));
  OK(gpupool_free(pool, block, 0));
  OK(gpupool_destroy(pool));
  CHECK(gpupool_torch_pool_use_count(0, (gpupool_torch_mempool_t){0, 1}) == 0);
}

static void* first_call(void* argument) {
  const int at = *(const int*)argument;
  atomic_store(&steps_left, at);
  use_the_library();
  atomic_store(&steps_left, -1);
  sem_post(&stopped);
  return NULL;
}

// One process for each step, since a call is the first only once. Its status says whether the step came.
enum { kCame = 10, kNone = 11 };

static int fork_at(int at) {
  alarm(40);
  sem_init(&stopped, 0, 0);
  sem_init(&go_on, 0, 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, first_call, &at) == 0);
  sem_wait(&stopped);
  if (!atomic_load(&is_stopped)) return kNone;
  const pid_t child = fork();
  if (child == 0) {
    alarm(15);  // a hang ends the child with a signal
    atomic_store(&steps_left, -1);
    use_the_library();
    _exit(0);
  }
  sem_post(&go_on);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(pthread_join(thread, NULL) == 0);
  if (status == 0 && check_failures == 0) return kCame;
  fprintf(stderr, "step %d: the child ended with %s %d\n", at, WIFSIGNALED(status) ? "signal" : "status",
          WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  return 1;
}

int main(void) {
  int steps = 0;
  for (int came = kCame; came == kCame; ++steps) {
    const pid_t process = fork();
    if (process == 0) _exit(fork_at(steps));
    int status = 0;
    CHECK(waitpid(process, &status, 0) == process);
    CHECK(WIFEXITED(status));
    came = WEXITSTATUS(status);
    CHECK(came == kCame || came == kNone);
  }
  CHECK(steps > 10);
  printf("%d steps\n", steps - 1);
  return finish();
}
