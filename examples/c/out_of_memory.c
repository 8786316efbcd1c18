// SPDX-License-Identifier: Apache-2.0
// A limit, a handler that makes room, and the report that says where the memory is when nothing helps.
#include <gpupool/gpupool.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((uint64_t)1 << 20)
#define LIMIT (64 * MIB)

static void ok(gpupool_status_t status) {
  if (status == GPUPOOL_SUCCESS) return;
  gpupool_error_t error = {.struct_size = sizeof error};
  gpupool_last_error(&error);
  fprintf(stderr, "%s: %s\n", gpupool_status_name(status), error.message);
  exit(EXIT_FAILURE);
}

// What the program can spare: results that it could compute again.
static gpupool_ptr_t spare[2];
static int spares = 2;

// Called before a malloc fails. It may call any function of the library.
static int32_t make_room(void* user, gpupool_t* pool, uint64_t size, uint32_t attempt) {
  (void)user;
  printf("  handler, attempt %" PRIu32 ": %" PRIu64 " MiB are wanted, %d spare blocks\n", attempt, size / MIB,
         spares);
  if (spares == 0) return 0;  // give up
  return gpupool_free(pool, spare[--spares], 0) == GPUPOOL_SUCCESS;
}

int main(void) {
  gpupool_config_t config;
  ok(gpupool_config_init(&config, sizeof config));
  config.limit_bytes = LIMIT;
  gpupool_t* pool = NULL;
  ok(gpupool_create(&config, &pool));
  ok(gpupool_set_oom_handler(pool, make_room, NULL));

  gpupool_ptr_t model = 0, batch = 0, more = 0;
  ok(gpupool_malloc(pool, 20 * MIB, 0, &model));
  for (int i = 0; i < 2; ++i) ok(gpupool_malloc(pool, 16 * MIB, 0, &spare[i]));

  puts("40 MiB with 52 of 64 in use:");
  ok(gpupool_malloc(pool, 40 * MIB, 0, &batch));

  puts("10 MiB more than there can be:");
  const gpupool_status_t status = gpupool_malloc(pool, 10 * MIB, 0, &more);
  gpupool_error_t error = {.struct_size = sizeof error};
  ok(gpupool_last_error(&error));
  printf("  %s\n  %s\n", gpupool_status_name(status), error.message);

  // A failed malloc has changed nothing, and the limit was never exceeded.
  gpupool_stats_t stats = {.struct_size = sizeof stats};
  ok(gpupool_stats(pool, &stats));
  const int good = status == GPUPOOL_ERROR_OVER_LIMIT && more == 0 && spares == 0 &&
                   stats.all.reserved_bytes.peak <= LIMIT && stats.all.allocated_bytes.current == 60 * MIB;
  printf("reserved peak: %" PRIu64 " MiB of %" PRIu64 "\n", stats.all.reserved_bytes.peak / MIB, LIMIT / MIB);

  ok(gpupool_free(pool, model, 0));
  ok(gpupool_free(pool, batch, 0));
  ok(gpupool_destroy(pool));
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
