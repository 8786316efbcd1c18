// SPDX-License-Identifier: Apache-2.0
// fork while other threads allocate: the child never hangs on a lock held by a thread that does not exist in
// it.
#include <gpupool/torch.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"

enum { kThreads = 3, kForks = 100 };

static gpupool_t* pool;
static atomic_int stop;
static atomic_int running;

static void* allocate(void* argument) {
  const gpupool_stream_t stream = *(const gpupool_stream_t*)argument;
  atomic_fetch_add(&running, 1);
  for (uint64_t i = 0; !atomic_load(&stop); ++i) {
    gpupool_ptr_t small = 0;
    gpupool_ptr_t large = 0;
    if (gpupool_malloc(pool, 512 + i % 4096, stream, &small) != GPUPOOL_SUCCESS) abort();
    if (gpupool_malloc(pool, (2 << 20) + (i % 64 << 18), stream, &large) != GPUPOOL_SUCCESS) abort();
    if (gpupool_free(pool, small, stream) != GPUPOOL_SUCCESS) abort();
    if (gpupool_free(pool, large, stream) != GPUPOOL_SUCCESS) abort();
    if (i % 64 == 0 && gpupool_empty(pool, NULL) != GPUPOOL_SUCCESS) abort();
    gpupool_t* short_lived = NULL;
    const gpupool_config_t config = config_for(0);
    if (i % 128 == 0 && gpupool_create(&config, &short_lived) != GPUPOOL_SUCCESS) abort();
    if (gpupool_destroy(short_lived) != GPUPOOL_SUCCESS) abort();
  }
  return NULL;
}

// The lock of PyTorch's pools comes before all others.
static const gpupool_torch_mempool_t kGraph = {0, 1};

static void* use_graph_pools(void* argument) {
  (void)argument;
  atomic_fetch_add(&running, 1);
  while (!atomic_load(&stop)) {
    gpupool_torch_retain_pool(0, kGraph);
    gpupool_torch_release_pool(0, kGraph);
    usleep(50);
  }
  return NULL;
}

static int in_child(void) {
  alarm(20);  // a hang ends the child with a signal
  CHECK(gpupool_torch_pool_use_count(0, kGraph) >= 0);
  gpupool_ptr_t block = 0;
  CHECK(gpupool_malloc(pool, 4096, 0, &block) == GPUPOOL_ERROR_FORKED);
  stats_of(pool);
  gpupool_config_t config = config_for(1);
  config.backend = GPUPOOL_BACKEND_SIM;
  gpupool_t* mine = NULL;
  OK(gpupool_create(&config, &mine));
  REQUIRE(mine != NULL);
  block = new_block(mine, UINT64_C(4) << 20);
  OK(gpupool_free(mine, block, 0));
  OK(gpupool_destroy(mine));
  return finish();
}

int main(void) {
  alarm(240);
  pool = new_pool(0);
  pthread_t threads[kThreads];
  gpupool_stream_t streams[kThreads] = {0};  // the first one stays the default stream
  for (int i = 1; i < kThreads; ++i) OK(gpupool_stream_create(pool, &streams[i]));
  for (int i = 0; i < kThreads; ++i) {
    REQUIRE(pthread_create(&threads[i], NULL, allocate, &streams[i]) == 0);
  }
  pthread_t graphs;
  REQUIRE(pthread_create(&graphs, NULL, use_graph_pools, NULL) == 0);
  while (atomic_load(&running) < kThreads + 1) usleep(1000);
  for (int i = 0; i < kForks && check_failures == 0; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(in_child());
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < kThreads; ++i) REQUIRE(pthread_join(threads[i], NULL) == 0);
  REQUIRE(pthread_join(graphs, NULL) == 0);
  OK(gpupool_validate(pool));
  OK(gpupool_empty(pool, NULL));
  CHECK(stats_of(pool).all.reserved_bytes.current == 0);
  for (int i = 1; i < kThreads; ++i) OK(gpupool_stream_destroy(pool, streams[i]));
  OK(gpupool_destroy(pool));
  return finish();
}
