// SPDX-License-Identifier: Apache-2.0
// fork: the child gets FORKED for every inherited pool and may start afresh on the simulated device; the
// parent goes on as if nothing had happened.
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"

enum { kBlocks = 8 };

static gpupool_t* pool;
static gpupool_t* child_pool; /* shares the limit of pool */
static gpupool_ptr_t blocks[kBlocks];

static void inherited_pool_is_refused(void) {
  gpupool_ptr_t block = 1;
  FAILS(GPUPOOL_ERROR_FORKED, gpupool_malloc(pool, 4096, 0, &block));
  CHECK(block == 0);
  FAILS(GPUPOOL_ERROR_FORKED, gpupool_malloc_aligned(pool, 4096, 4096, 0, &block));
  FAILS(GPUPOOL_ERROR_FORKED, gpupool_free(pool, blocks[0], 0));
  FAILS(GPUPOOL_ERROR_FORKED, gpupool_record_stream(pool, blocks[0], 1));
  FAILS(GPUPOOL_ERROR_FORKED, gpupool_release_stream(pool, 1));
  FAILS(GPUPOOL_ERROR_FORKED, gpupool_park_stream(pool, 1));
  FAILS(GPUPOOL_ERROR_FORKED, gpupool_synchronize(pool));
  FAILS(GPUPOOL_ERROR_FORKED, gpupool_empty(pool, NULL));
  FAILS(GPUPOOL_ERROR_FORKED, gpupool_reserve(pool, UINT64_C(1) << 30, 0));
  gpupool_stream_t stream = 1;
  FAILS(GPUPOOL_ERROR_FORKED, gpupool_stream_create(pool, &stream));
  CHECK(stream == 0);
  CHECK(stats_of(pool).all.allocated_blocks.current == kBlocks);
  gpupool_t* another = pool;
  FAILS(GPUPOOL_ERROR_FORKED, gpupool_malloc(child_pool, 4096, 0, &block));
  FAILS(GPUPOOL_ERROR_FORKED, gpupool_create_child(pool, &another));
  CHECK(another == NULL);
  CHECK(stats_of(child_pool).all.allocated_blocks.current == 1);
}

static void new_pools(void) {
  gpupool_config_t config = config_for(0);
  gpupool_t* mine = NULL;
  if (config.backend == GPUPOOL_BACKEND_CUDA) {
    FAILS(GPUPOOL_ERROR_FORKED, gpupool_create(&config, &mine));
    CHECK(mine == NULL);
    config.backend = GPUPOOL_BACKEND_SIM;
  }
  OK(gpupool_create(&config, &mine));
  REQUIRE(mine != NULL);
  const gpupool_ptr_t small = new_block(mine, 4096);
  const gpupool_ptr_t large = new_block(mine, UINT64_C(16) << 20);
  memset((void*)(uintptr_t)large, 0x5a, 4096);
  OK(gpupool_free(mine, small, 0));
  OK(gpupool_free(mine, large, 0));
  OK(gpupool_validate(mine));
  OK(gpupool_destroy(mine));
}

static void in_child(void) {
  inherited_pool_is_refused();
  new_pools();
  // A child of the child has inherited everything once more.
  const pid_t grandchild = fork();
  if (grandchild == 0) {
    inherited_pool_is_refused();
    new_pools();
    exit(finish());
  }
  int status = 0;
  REQUIRE(waitpid(grandchild, &status, 0) == grandchild);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
  alarm(60);
  pool = new_pool(0);
  for (int i = 0; i < kBlocks; ++i) blocks[i] = new_block(pool, UINT64_C(1000) << (2 * i));
  OK(gpupool_create_child(pool, &child_pool));
  const gpupool_ptr_t of_child = new_block(child_pool, 4096);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);
    in_child();
    return finish();  // through exit, with all its handlers
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);

  const gpupool_ptr_t block = new_block(pool, 4096);
  OK(gpupool_free(pool, block, 0));
  OK(gpupool_free(child_pool, of_child, 0));
  OK(gpupool_destroy(child_pool));
  for (int i = 0; i < kBlocks; ++i) OK(gpupool_free(pool, blocks[i], 0));
  OK(gpupool_empty(pool, NULL));
  CHECK(stats_of(pool).all.reserved_bytes.current == 0);
  OK(gpupool_validate(pool));
  OK(gpupool_destroy(pool));
  return finish();
}
