// SPDX-License-Identifier: Apache-2.0
// fork while other threads create and end PyTorch's graph pools: the child never hangs on a lock held by a
// thread that does not exist in it.
#include <gpupool/torch.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"

enum { kThreads = 3, kForks = 100 };

static atomic_int stop;
static atomic_int running;

static void* use_pools(void* argument) {
  const gpupool_torch_mempool_t id = {0, *(const uint64_t*)argument};
  atomic_fetch_add(&running, 1);
  while (!atomic_load(&stop)) {
    gpupool_torch_retain_pool(0, id);
    void* block = gpupool_torch_alloc(4096, 0, NULL);
    if (block == NULL) abort();
    gpupool_torch_free(block, 4096, 0, NULL);
    if (gpupool_torch_pool_use_count(0, id) != 1) abort();
    gpupool_torch_release_pool(0, id);
  }
  return NULL;
}

static int in_child(void) {
  alarm(20);  // a hang ends the child with a signal
  const gpupool_torch_mempool_t id = {0, 1};
  CHECK(gpupool_torch_pool_use_count(0, id) <= 1);
  (void)gpupool_torch_pools(0, NULL, NULL, 0);
  gpupool_torch_release_pool(0, id);
  return finish();
}

int main(void) {
  alarm(240);
  // The library's own first use is over, as in any program that forks while it is at work.
  const gpupool_torch_mempool_t first = {0, 4};
  gpupool_torch_retain_pool(0, first);
  gpupool_torch_release_pool(0, first);
  pthread_t threads[kThreads];
  uint64_t numbers[kThreads] = {1, 2, 3};
  for (int i = 0; i < kThreads; ++i) REQUIRE(pthread_create(&threads[i], NULL, use_pools, &numbers[i]) == 0);
  while (atomic_load(&running) < kThreads) usleep(1000);
  for (int i = 0; i < kForks && check_failures == 0; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(in_child());
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    if (!CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0))
      fprintf(stderr, "fork %d: status %d\n", i, status);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < kThreads; ++i) REQUIRE(pthread_join(threads[i], NULL) == 0);
  CHECK(gpupool_torch_pools(0, NULL, NULL, 0) == 1);
  return finish();
}
