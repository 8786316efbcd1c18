/* SPDX-License-Identifier: Apache-2.0 */
/* Checks for test programs in plain C. A program counts its failures and returns finish() from main. */
#ifndef GPUPOOL_TESTS_SUPPORT_CHECK_H
#define GPUPOOL_TESTS_SUPPORT_CHECK_H

#include <gpupool/gpupool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_failures = 0;

/* A condition that must hold. */
#define CHECK(condition) check_that(__FILE__, __LINE__, #condition, (condition))

/* One without which later lines make no sense: fails the program at once. */
#define REQUIRE(condition)                     \
  do {                                         \
    if (!CHECK(condition)) exit(EXIT_FAILURE); \
  } while (0)

/* A call that must succeed. */
#define OK(call) check_status(__FILE__, __LINE__, #call, (call), GPUPOOL_SUCCESS, GPUPOOL_SUCCESS)

/* A call that must fail with this status, and leave a message. */
#define FAILS(expected, call) check_status(__FILE__, __LINE__, #call, (call), (expected), (expected))

/* A call that must fail with one of two statuses, where the contract leaves the choice. */
#define FAILS_EITHER(expected, other, call) \
  check_status(__FILE__, __LINE__, #call, (call), (expected), (other))

static inline int check_that(const char* file, int line, const char* condition, int holds) {
  if (!holds) {
    fprintf(stderr, "%s:%d: %s does not hold\n", file, line, condition);
    ++check_failures;
  }
  return holds;
}

/* The thread's last error is this status, in words. */
static inline void check_last_error(const char* file, int line, const char* call, gpupool_status_t status) {
  gpupool_error_t error;
  memset(&error, 0xab, sizeof error);
  error.struct_size = sizeof error;
  if (gpupool_last_error(&error) != GPUPOOL_SUCCESS || error.status != (int32_t)status ||
      error.message[0] == '\0' || memchr(error.message, '\0', sizeof error.message) == NULL) {
    fprintf(stderr, "%s:%d: %s: gpupool_last_error does not tell of %s\n", file, line, call,
            gpupool_status_name(status));
    ++check_failures;
  }
}

static inline int check_status(const char* file, int line, const char* call, gpupool_status_t actual,
                               gpupool_status_t expected, gpupool_status_t other) {
  if (actual != expected && actual != other) {
    fprintf(stderr, "%s:%d: %s gave %s instead of %s\n", file, line, call, gpupool_status_name(actual),
            gpupool_status_name(expected));
    if (actual != GPUPOOL_SUCCESS) {
      gpupool_error_t error;
      error.struct_size = sizeof error;
      if (gpupool_last_error(&error) == GPUPOOL_SUCCESS) fprintf(stderr, "  %s\n", error.message);
    }
    ++check_failures;
    return 0;
  }
  if (actual != GPUPOOL_SUCCESS) check_last_error(file, line, call, actual);
  return 1;
}

/* A configuration for device number `device` of the backend that GPUPOOL_BACKEND names; sim without it. */
static inline gpupool_config_t config_for(int32_t device) {
  const char* backend = getenv("GPUPOOL_BACKEND");
  gpupool_config_t config;
  OK(gpupool_config_init(&config, sizeof config));
  config.device = device;
  config.backend =
      backend != NULL && strcmp(backend, "cuda") == 0 ? GPUPOOL_BACKEND_CUDA : GPUPOOL_BACKEND_SIM;
  return config;
}

/* A pool on that device. */
static inline gpupool_t* new_pool(int32_t device) {
  const gpupool_config_t config = config_for(device);
  gpupool_t* pool = NULL;
  OK(gpupool_create(&config, &pool));
  REQUIRE(pool != NULL);
  return pool;
}

static inline gpupool_ptr_t new_block(gpupool_t* pool, uint64_t size) {
  gpupool_ptr_t block = 0;
  OK(gpupool_malloc(pool, size, 0, &block));
  REQUIRE(block != 0);
  return block;
}

static inline gpupool_stats_t stats_of(gpupool_t* pool) {
  gpupool_stats_t stats;
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  OK(gpupool_stats(pool, &stats));
  return stats;
}

/* What main returns. */
static inline int finish(void) {
  if (check_failures != 0) fprintf(stderr, "%d checks failed\n", check_failures);
  return check_failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
