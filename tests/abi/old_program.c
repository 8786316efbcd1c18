// SPDX-License-Identifier: Apache-2.0
// A program of an earlier release, built with that release's header, on today's library: what it knows of
// structs, numbers and functions still holds. tests/abi/released has the headers.
#include <gpupool/gpupool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)
#define WELL(call) CHECK((call) == GPUPOOL_SUCCESS)

#define LIMIT (UINT64_C(64) << 20)

// What follows a struct must stay as it is: the library writes no more than this program knows of.
typedef struct {
  gpupool_stats_t stats;
  uint64_t behind;
} guarded_stats_t;
typedef struct {
  gpupool_device_info_t info;
  uint64_t behind;
} guarded_info_t;
typedef struct {
  gpupool_error_t error;
  uint64_t behind;
} guarded_error_t;

static void check_device(void) {
  int32_t count = 0;
  WELL(gpupool_device_count(GPUPOOL_BACKEND_SIM, &count));
  CHECK(count >= 1);
  guarded_info_t device;
  memset(&device, 0, sizeof device);
  device.info.struct_size = sizeof device.info;
  device.behind = 42;
  WELL(gpupool_device_info(GPUPOOL_BACKEND_SIM, 0, &device.info));
  CHECK(device.behind == 42);
  CHECK(device.info.total_bytes >= LIMIT && device.info.free_bytes <= device.info.total_bytes);
  CHECK(strcmp(device.info.name, "gpupool simulated device") == 0);
}

static void check_numbers(gpupool_t* pool, uint64_t live) {
  guarded_stats_t known;
  memset(&known, 0, sizeof known);
  known.stats.struct_size = sizeof known.stats;
  known.behind = 42;
  WELL(gpupool_stats(pool, &known.stats));
  CHECK(known.behind == 42);
  CHECK(known.stats.struct_size == sizeof known.stats);
  CHECK(known.stats.limit_bytes == LIMIT);
  CHECK(known.stats.all.allocated_bytes.current == live);
  CHECK(known.stats.all.reserved_bytes.current >= live && known.stats.all.reserved_bytes.current <= LIMIT);
}

static void check_failure(gpupool_t* pool) {
  gpupool_ptr_t block = 7;
  CHECK(gpupool_malloc(pool, 2 * LIMIT, 0, &block) == GPUPOOL_ERROR_OVER_LIMIT);
  guarded_error_t last;
  memset(&last, 0, sizeof last);
  last.error.struct_size = sizeof last.error;
  last.behind = 42;
  WELL(gpupool_last_error(&last.error));
  CHECK(last.behind == 42);
  CHECK(last.error.status == GPUPOOL_ERROR_OVER_LIMIT);
  CHECK(strstr(last.error.message, "limit") != NULL);
  CHECK(strcmp(gpupool_status_name(GPUPOOL_ERROR_OVER_LIMIT), "GPUPOOL_ERROR_OVER_LIMIT") == 0);
}

int main(void) {
  CHECK(gpupool_version() >= GPUPOOL_VERSION);
  check_device();
  gpupool_config_t config;
  WELL(gpupool_config_init(&config, sizeof config));
  config.backend = GPUPOOL_BACKEND_SIM;
  config.limit_bytes = LIMIT;
  gpupool_t* pool = NULL;
  WELL(gpupool_create(&config, &pool));

  unsigned char bytes[1000];
  memset(bytes, 5, sizeof bytes);
  gpupool_ptr_t block = 0;
  WELL(gpupool_malloc(pool, 1 << 20, 0, &block));
  check_numbers(pool, 1 << 20);
  WELL(gpupool_copy(pool, block, (gpupool_ptr_t)(uintptr_t)bytes, sizeof bytes, 0));
  WELL(gpupool_fill(pool, block, 0, 10, 0));
  memset(bytes, 9, sizeof bytes);
  WELL(gpupool_copy(pool, (gpupool_ptr_t)(uintptr_t)bytes, block, sizeof bytes, 0));
  WELL(gpupool_stream_synchronize(pool, 0));
  CHECK(bytes[0] == 0 && bytes[9] == 0 && bytes[10] == 5 && bytes[999] == 5);
  check_failure(pool);
  WELL(gpupool_free(pool, block, 0));
  CHECK(gpupool_free(pool, block, 0) == GPUPOOL_ERROR_UNKNOWN_POINTER);
  check_numbers(pool, 0);
  WELL(gpupool_empty(pool, NULL));
  WELL(gpupool_validate(pool));
  WELL(gpupool_destroy(pool));
  return 0;
}
