// SPDX-License-Identifier: Apache-2.0
// Whoever limits a pool, no other lifts that limit: of any two, the smaller holds, and a failed malloc names
// it. Only its owner raises a limit. The region's folder belongs to this program.
#define _GNU_SOURCE  // setenv, mkdtemp
#include <stdlib.h>

#include "support/check.h"

#define MIB (UINT64_C(1) << 20)
#define CAPACITY (1024 * MIB)

typedef enum owner_t { PROGRAM, ENVIRONMENT, GROUP } owner_t;
typedef enum when_t { BEFORE, AT_CREATION, AFTER } when_t;

typedef struct limiter_t {
  const char* name;
  owner_t owner;
  when_t when;
  // What a failed malloc says.
  const char* words;
} limiter_t;

static const limiter_t limiters[] = {
    {"limit_bytes", PROGRAM, AT_CREATION, "over the pool's limit"},
    {"fraction", PROGRAM, AT_CREATION, "over the pool's limit"},
    {"set_limit", PROGRAM, AFTER, "over the pool's limit"},
    {"set_fraction", PROGRAM, AFTER, "over the pool's limit"},
    {"GPUPOOL_LIMIT", ENVIRONMENT, BEFORE, "over the limit of GPUPOOL_LIMIT"},
    {"GPUPOOL_FRACTION", ENVIRONMENT, BEFORE, "over the limit of GPUPOOL_FRACTION"},
    {"GPUPOOL_CAP", ENVIRONMENT, BEFORE, "over the limit of GPUPOOL_CAP"},
    {"group", GROUP, BEFORE, "over the group's limit"},
};
enum { LIMITERS = sizeof limiters / sizeof limiters[0] };

static void apply(const limiter_t* limiter, uint64_t mebibytes, gpupool_config_t* config, gpupool_t* pool) {
  const double share = (double)mebibytes / 1024;
  char text[32];
  if (limiter->owner != PROGRAM) {
    if (strcmp(limiter->name, "GPUPOOL_FRACTION") == 0) {
      snprintf(text, sizeof text, "%g", share);
    } else {
      snprintf(text, sizeof text, "%dMiB", (int)mebibytes);
    }
    if (limiter->owner == GROUP) {
      static char names[32];
      static int groups = 0;
      snprintf(names, sizeof names, "group-%d", ++groups);
      config->share = names;
      setenv("GPUPOOL_SHARE_LIMIT", text, 1);
    } else {
      setenv(limiter->name, text, 1);
    }
  } else if (strcmp(limiter->name, "limit_bytes") == 0) {
    config->limit_bytes = mebibytes * MIB;
  } else if (strcmp(limiter->name, "fraction") == 0) {
    config->fraction = share;
  } else if (strcmp(limiter->name, "set_limit") == 0) {
    OK(gpupool_set_limit(pool, mebibytes * MIB));
  } else {
    OK(gpupool_set_fraction(pool, share));
  }
}

static void clear_environment(void) {
  for (int i = 0; i < LIMITERS; ++i) unsetenv(limiters[i].name);
  unsetenv("GPUPOOL_SHARE_LIMIT");
}

// Whether the pool can have so much and no more, and says who forbids it.
static void holds(gpupool_t* pool, uint64_t mebibytes, const char* words) {
  gpupool_ptr_t block = 0;
  gpupool_ptr_t more = 0;
  gpupool_error_t error;
  error.struct_size = sizeof error;
  OK(gpupool_malloc(pool, mebibytes * MIB, 0, &block));
  FAILS(GPUPOOL_ERROR_OVER_LIMIT, gpupool_malloc(pool, 2 * MIB, 0, &more));
  CHECK(gpupool_last_error(&error) == GPUPOOL_SUCCESS);
  if (strstr(error.message, words) == NULL) {
    fprintf(stderr, "\"%s\"\n  has no \"%s\"\n", error.message, words);
    ++check_failures;
  }
  OK(gpupool_free(pool, block, 0));
  OK(gpupool_empty(pool, NULL));
}

static gpupool_t* create(const limiter_t* small, const limiter_t* large) {
  gpupool_config_t config = config_for(0);
  gpupool_t* pool = NULL;
  const limiter_t* each[] = {large, small};
  clear_environment();
  for (int i = 0; i < 2; ++i) {
    if (each[i]->when != AFTER) apply(each[i], each[i] == small ? 256 : 512, &config, NULL);
  }
  OK(gpupool_create(&config, &pool));
  for (int i = 0; i < 2; ++i) {
    if (each[i]->when == AFTER) apply(each[i], each[i] == small ? 256 : 512, &config, pool);
  }
  return pool;
}

static void test_all_pairs(void) {
  for (int small = 0; small < LIMITERS; ++small) {
    for (int large = 0; large < LIMITERS; ++large) {
      const limiter_t *a = &limiters[small], *b = &limiters[large];
      // The program may raise what it set before.
      const int is_raised = a->owner == PROGRAM && b->when == AFTER;
      const int before = check_failures;
      if (small == large || (a->owner == GROUP && b->owner == GROUP)) continue;
      gpupool_t* pool = create(a, b);
      if (is_raised && a->when == AFTER) apply(b, 512, NULL, pool);
      holds(pool, is_raised ? 512 : 256, is_raised ? b->words : a->words);
      OK(gpupool_destroy(pool));
      if (check_failures != before) fprintf(stderr, "  with %s below %s\n", a->name, b->name);
    }
  }
}

// What the program takes away or raises is its own limit only.
static void test_nobody_lifts_it(void) {
  gpupool_stats_t stats;
  gpupool_t* pool = create(&limiters[4], &limiters[0]);
  stats.struct_size = sizeof stats;
  OK(gpupool_set_limit(pool, 0));
  OK(gpupool_stats(pool, &stats));
  CHECK(stats.limit_bytes == 256 * MIB && stats.own_limit_bytes == 0);
  OK(gpupool_set_fraction(pool, 1));
  holds(pool, 256, "of a limit of 256.00 MiB (GPUPOOL_LIMIT)");
  OK(gpupool_set_limit(pool, 128 * MIB));
  holds(pool, 128, "over the pool's limit");
  OK(gpupool_stats(pool, &stats));
  CHECK(stats.limit_bytes == 128 * MIB && stats.own_limit_bytes == 128 * MIB);
  OK(gpupool_set_limit(pool, 512 * MIB));
  OK(gpupool_stats(pool, &stats));
  CHECK(stats.limit_bytes == 256 * MIB && stats.own_limit_bytes == 512 * MIB);
  // Its owner lets the pool know by setting the limit anew.
  setenv("GPUPOOL_LIMIT", "384MiB", 1);
  OK(gpupool_set_limit(pool, stats.own_limit_bytes));
  holds(pool, 384, "over the limit of GPUPOOL_LIMIT");
  OK(gpupool_destroy(pool));
}

static void test_caps(void) {
  gpupool_stats_t stats;
  gpupool_config_t config = config_for(0);
  gpupool_t* pool = NULL;
  stats.struct_size = sizeof stats;
  clear_environment();
  setenv("GPUPOOL_CAP", "auto, 50% ,256MiB", 1);
  OK(gpupool_create(&config, &pool));
  OK(gpupool_stats(pool, &stats));
  CHECK(stats.limit_bytes == 256 * MIB);
  setenv("GPUPOOL_CAP", "much", 1);
  FAILS(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_set_limit(pool, 0));
  OK(gpupool_stats(pool, &stats));
  CHECK(stats.limit_bytes == 256 * MIB);
  OK(gpupool_destroy(pool));
  FAILS(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create(&config, &pool));
  // Page-locked memory is the host's.
  config.kind = GPUPOOL_KIND_PINNED;
  setenv("GPUPOOL_CAP", "256MiB", 1);
  OK(gpupool_create(&config, &pool));
  OK(gpupool_stats(pool, &stats));
  CHECK(stats.limit_bytes == 0);
  OK(gpupool_destroy(pool));
}

static void test_default_pool(void) {
  gpupool_stats_t stats;
  gpupool_t* pool = NULL;
  stats.struct_size = sizeof stats;
  clear_environment();
  setenv("GPUPOOL_LIMIT", "256MiB", 1);
  setenv("GPUPOOL_CAP", "50%", 1);
  OK(gpupool_default_pool(0, &pool));
  OK(gpupool_set_fraction(pool, 0.5));
  holds(pool, 256, "over the limit of GPUPOOL_LIMIT");
}

int main(void) {
  char folder[] = "/tmp/gpupool-limits-XXXXXX";
  gpupool_sim_config_t sim;
  memset(&sim, 0, sizeof sim);
  sim.struct_size = sizeof sim;
  sim.data = 2;
  sim.capacity_bytes = CAPACITY;
  REQUIRE(mkdtemp(folder) != NULL);
  setenv("GPUPOOL_SHARE_DIR", folder, 1);
  OK(gpupool_sim_configure(0, &sim));
  test_all_pairs();
  test_nobody_lifts_it();
  test_caps();
  test_default_pool();
  char command[sizeof folder + 16];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  CHECK(system(command) == 0);
  return finish();
}
