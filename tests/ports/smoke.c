/* SPDX-License-Identifier: Apache-2.0 */
/* The least that must work on every system: smoke [data]. With "data", blocks are written to and read, which
 * needs a simulated device with data, which there is not on Windows; else GPUPOOL_SIM=data=0 is in the
 * environment. */
#include <stdio.h>
#include <string.h>

#include "gpupool/gpupool.h"

#define BLOCKS 100
#define MIB ((uint64_t)1 << 20)

static int failures = 0;

static void expect(int holds, const char* what) {
  gpupool_error_t error;
  if (holds) return;
  memset(&error, 0, sizeof error);
  error.struct_size = sizeof error;
  (void)gpupool_last_error(&error);
  printf("failed: %s: %s\n", what, error.message);
  ++failures;
}

static volatile unsigned char* byte_of(gpupool_ptr_t block, uint64_t offset) {
  return (volatile unsigned char*)(uintptr_t)(block + offset);
}

static void test_pool(gpupool_t* pool, int has_data) {
  gpupool_ptr_t blocks[BLOCKS];
  gpupool_ptr_t large = 0;
  uint64_t released = 0;
  for (int i = 0; i < BLOCKS; ++i) {
    expect(gpupool_malloc(pool, MIB * (uint64_t)(1 + i % 5), 5, &blocks[i]) == GPUPOOL_SUCCESS, "malloc");
    if (failures != 0) return;
    if (has_data) *byte_of(blocks[i], 77) = (unsigned char)i;
  }
  for (int i = 0; i < BLOCKS; i += 2) expect(gpupool_free(pool, blocks[i], 5) == GPUPOOL_SUCCESS, "free");
  /* Larger than any hole: free memory moves to other addresses. */
  expect(gpupool_malloc(pool, 90 * MIB, 5, &large) == GPUPOOL_SUCCESS, "a large malloc");
  if (failures != 0) return;
  if (has_data) {
    for (uint64_t at = 0; at < 90 * MIB; at += MIB) *byte_of(large, at) = 0xee;
    for (int i = 1; i < BLOCKS; i += 2) expect(*byte_of(blocks[i], 77) == i, "what was written is there");
  }
  expect(gpupool_validate(pool) == GPUPOOL_SUCCESS, "validate");
  for (int i = 1; i < BLOCKS; i += 2) expect(gpupool_free(pool, blocks[i], 5) == GPUPOOL_SUCCESS, "free");
  expect(gpupool_free(pool, large, 5) == GPUPOOL_SUCCESS, "free");
  expect(gpupool_trim(pool, 0, &released) == GPUPOOL_SUCCESS && released != 0, "trim");
}

int main(int argc, char** argv) {
  const int has_data = argc > 1 && strcmp(argv[1], "data") == 0;
  gpupool_config_t config;
  gpupool_t* pool = NULL;
  expect(gpupool_version() == GPUPOOL_VERSION, "the header and the library are of one version");
  expect(gpupool_config_init(&config, sizeof config) == GPUPOOL_SUCCESS, "config_init");
  config.backend = GPUPOOL_BACKEND_SIM;
  expect(gpupool_create(&config, &pool) == GPUPOOL_SUCCESS, "create");
  if (failures == 0) test_pool(pool, has_data);
  if (failures == 0) expect(gpupool_destroy(pool) == GPUPOOL_SUCCESS, "destroy");
  if (failures == 0) printf("gpupool %s works\n", gpupool_version_string());
  return failures != 0;
}
