// SPDX-License-Identifier: Apache-2.0
// Ending threads leave what they cached to others: a thousand short-lived threads need no more memory than
// the first few, and all of it can be given back. With the argument no_keys, others have all keys of the
// process.
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "support/check.h"

enum { kThreads = 1000, kWarmUp = 20, kBlocks = 48 };

static gpupool_t* pool;

// Mallocs blocks of many sizes and frees them; what it cached stays behind when the thread ends.
static void* visit(void* argument) {
  (void)argument;
  gpupool_ptr_t blocks[kBlocks] = {0};
  for (int i = 0; i < kBlocks; ++i) {
    if (gpupool_malloc(pool, UINT64_C(512) << (i % 14), 0, &blocks[i]) != GPUPOOL_SUCCESS) abort();
  }
  for (int i = 0; i < kBlocks; ++i) {
    if (gpupool_free(pool, blocks[i], 0) != GPUPOOL_SUCCESS) abort();
  }
  return NULL;
}

// Ends while its blocks live on; whoever comes later frees them.
static void* leave_block(void* argument) {
  if (gpupool_malloc(pool, 4096, 0, (gpupool_ptr_t*)argument) != GPUPOOL_SUCCESS) abort();
  return NULL;
}

// Gets nothing, and so needs no cache.
static void* ask_for_nothing(void* argument) {
  gpupool_ptr_t block = 1;
  if (gpupool_malloc((gpupool_t*)argument, 0, 0, &block) != GPUPOOL_SUCCESS || block != 0) abort();
  if (gpupool_malloc((gpupool_t*)argument, UINT64_MAX, 0, &block) == GPUPOOL_SUCCESS) abort();
  return NULL;
}

static void run(void* (*function)(void*), void* argument) {
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, function, argument) == 0);
  REQUIRE(pthread_join(thread, NULL) == 0);
}

// So that the library gets none.
static void take_all_keys(void) {
  pthread_key_t key;
  while (pthread_key_create(&key, NULL) == 0) continue;
}

int main(int argc, char** argv) {
  alarm(120);
  if (argc > 1 && strcmp(argv[1], "no_keys") == 0) take_all_keys();
  pool = new_pool(0);
  uint64_t after_warm_up = 0;
  uint64_t metadata = 0;
  for (int i = 0; i < kThreads; ++i) {
    run(visit, NULL);
    if (i + 1 == kWarmUp) {
      after_warm_up = stats_of(pool).all.reserved_bytes.peak;
      metadata = stats_of(pool).metadata_bytes;
    }
  }
  const gpupool_stats_t stats = stats_of(pool);
  CHECK(stats.all.reserved_bytes.peak <= after_warm_up);
  CHECK(stats.metadata_bytes <= metadata);
  CHECK(stats.all.allocated_blocks.current == 0);
  CHECK(stats.all.allocated_blocks.total_allocated == (uint64_t)kThreads * kBlocks);

  gpupool_ptr_t left[64] = {0};
  for (int i = 0; i < 64; ++i) run(leave_block, &left[i]);
  CHECK(stats_of(pool).all.allocated_blocks.current == 64);
  for (int i = 0; i < 64; ++i) OK(gpupool_free(pool, left[i], 0));

  OK(gpupool_empty(pool, NULL));
  CHECK(stats_of(pool).all.reserved_bytes.current == 0);
  OK(gpupool_validate(pool));
  OK(gpupool_destroy(pool));

  gpupool_t* unused = new_pool(0);
  const uint64_t before = stats_of(unused).metadata_bytes;
  run(ask_for_nothing, unused);
  CHECK(stats_of(unused).metadata_bytes == before);
  OK(gpupool_destroy(unused));
  return finish();
}
