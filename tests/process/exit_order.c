// SPDX-License-Identifier: Apache-2.0
// exit_order alive | early_handler | late_handler | destructor | threads: the process ends while objects are
// alive, and the program's own clean-up calls the library at the worst moments. Frees must still succeed,
// nothing may crash, and the exit status must be the program's.
#include <pthread.h>
#include <unistd.h>

#include "support/check.h"

static gpupool_t* pool;
static gpupool_ptr_t blocks[2];
static int clean_up_in_destructor;

// What a program does when it is torn down. A failure can only be told through the exit status.
static void clean_up(void) {
  gpupool_ptr_t block = 0;
  const gpupool_status_t status = gpupool_malloc(pool, 4096, 0, &block);
  CHECK(status == GPUPOOL_SUCCESS || (status == GPUPOOL_ERROR_SHUTTING_DOWN && block == 0));
  OK(gpupool_free(pool, block, 0));
  OK(gpupool_free(pool, blocks[0], 0));
  OK(gpupool_free(pool, blocks[1], 0));
  CHECK(stats_of(pool).all.allocated_blocks.current == 0);
  OK(gpupool_empty(pool, NULL));
  OK(gpupool_destroy(pool));
  if (check_failures != 0) _exit(finish());
}

__attribute__((destructor)) static void destructor(void) {
  if (clean_up_in_destructor) clean_up();
}

static void* allocate_for_ever(void* argument) {
  (void)argument;
  for (;;) {
    gpupool_ptr_t block = 0;
    const gpupool_status_t status = gpupool_malloc(pool, 1 << 16, 0, &block);
    if (status != GPUPOOL_SUCCESS && status != GPUPOOL_ERROR_SHUTTING_DOWN) _exit(2);
    if (gpupool_free(pool, block, 0) != GPUPOOL_SUCCESS) _exit(3);
  }
  return NULL;
}

static void allocate(void) {
  pool = new_pool(0);
  blocks[0] = new_block(pool, 4096);
  blocks[1] = new_block(pool, UINT64_C(8) << 20);
}

int main(int argument_count, char** arguments) {
  alarm(60);
  const char* when = argument_count == 2 ? arguments[1] : "";
  if (strcmp(when, "alive") == 0) {
    allocate();
  } else if (strcmp(when, "early_handler") == 0) {
    REQUIRE(atexit(clean_up) == 0);  // before the library is used, so it runs after all that it sets up
    allocate();
  } else if (strcmp(when, "late_handler") == 0) {
    allocate();
    REQUIRE(atexit(clean_up) == 0);
  } else if (strcmp(when, "destructor") == 0) {
    allocate();
    clean_up_in_destructor = 1;
  } else if (strcmp(when, "threads") == 0) {
    allocate();
    for (int i = 0; i < 4; ++i) {
      pthread_t thread;
      REQUIRE(pthread_create(&thread, NULL, allocate_for_ever, NULL) == 0);
    }
    usleep(20000);
  } else {
    fprintf(stderr, "usage: exit_order alive | early_handler | late_handler | destructor | threads\n");
    return 2;
  }
  return finish();
}
