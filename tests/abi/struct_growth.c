// SPDX-License-Identifier: Apache-2.0
// Programs older or newer than the library: structs that are shorter or longer than it knows. Structs that
// the library reads may be longer only if the rest is zero; in structs that it writes, it says how much it
// wrote.
#include <stddef.h>

#include "support/check.h"

#define TAIL 24
#define SHORTEST 8

// Each struct as a newer header might have it.
typedef struct {
  gpupool_config_t known;
  unsigned char tail[TAIL];
} long_config_t;
typedef struct {
  gpupool_stats_t known;
  unsigned char tail[TAIL];
} long_stats_t;
typedef struct {
  gpupool_error_t known;
  unsigned char tail[TAIL];
} long_error_t;
typedef struct {
  gpupool_device_info_t known;
  unsigned char tail[TAIL];
} long_device_info_t;
typedef struct {
  gpupool_sim_config_t known;
  unsigned char tail[TAIL];
} long_sim_config_t;

// Whether all bytes from `begin` up to `end` of an object have this value.
static int all_bytes(const void* object, size_t begin, size_t end, unsigned char value) {
  const unsigned char* bytes = (const unsigned char*)object;
  for (size_t i = begin; i < end; ++i) {
    if (bytes[i] != value) return 0;
  }
  return 1;
}

static void test_config(void) {
  gpupool_t* pool = NULL;

  // An old program: what it does not know is default, whatever lies behind its struct.
  long_config_t config;
  memset(&config, 0xff, sizeof config);
  OK(gpupool_config_init(&config.known, offsetof(gpupool_config_t, fraction)));
  CHECK(config.known.struct_size == offsetof(gpupool_config_t, fraction));
  CHECK(all_bytes(&config, sizeof config.known.struct_size, config.known.struct_size, 0));
  CHECK(all_bytes(&config, config.known.struct_size, sizeof config, 0xff));
  config.known.backend = GPUPOOL_BACKEND_SIM;
  OK(gpupool_create(&config.known, &pool));
  CHECK(stats_of(pool).limit_bytes == 0);
  OK(gpupool_destroy(pool));

  // Too short to be any version of it.
  for (uint32_t size = 0; size < SHORTEST; ++size) {
    config.known.struct_size = size;
    pool = (gpupool_t*)&config;
    FAILS(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create(&config.known, &pool));
    CHECK(pool == NULL);
    FAILS(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_config_init(&config.known, size));
  }

  // A new program that uses nothing new, and one that does.
  memset(&config, 0, sizeof config);
  config.known.struct_size = sizeof config;
  config.known.backend = GPUPOOL_BACKEND_SIM;
  OK(gpupool_create(&config.known, &pool));
  OK(gpupool_destroy(pool));
  config.tail[TAIL - 1] = 1;
  FAILS(GPUPOOL_ERROR_UNSUPPORTED, gpupool_create(&config.known, &pool));
  CHECK(pool == NULL);
  FAILS(GPUPOOL_ERROR_UNSUPPORTED, gpupool_config_init(&config.known, sizeof config));
}

// What a program gives that forgot to set struct_size: refused before anything is written.
static void test_garbage_sizes(void) {
  gpupool_t* pool = new_pool(0);
  static long_stats_t stats;
  static long_error_t error;
  static long_device_info_t info;
  memset(&stats, 0xff, sizeof stats);
  memset(&error, 0xff, sizeof error);
  memset(&info, 0xff, sizeof info);
  FAILS(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_stats(pool, &stats.known));
  FAILS(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_last_error(&error.known));
  FAILS(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_device_info(GPUPOOL_BACKEND_SIM, 0, &info.known));
  CHECK(all_bytes(&stats, 0, sizeof stats, 0xff));
  CHECK(all_bytes(&error, 0, sizeof error, 0xff));
  CHECK(all_bytes(&info, 0, sizeof info, 0xff));
  OK(gpupool_destroy(pool));
}

static void test_stats(void) {
  gpupool_t* pool = new_pool(0);
  OK(gpupool_set_limit(pool, 1 << 30));

  long_stats_t stats;
  memset(&stats, 0xff, sizeof stats);
  stats.known.struct_size = offsetof(gpupool_stats_t, cached_bytes);
  OK(gpupool_stats(pool, &stats.known));
  CHECK(stats.known.struct_size == offsetof(gpupool_stats_t, cached_bytes));
  CHECK(stats.known.limit_bytes == 1 << 30);
  CHECK(all_bytes(&stats, offsetof(gpupool_stats_t, cached_bytes), sizeof stats, 0xff));

  for (uint32_t size = 0; size < SHORTEST; ++size) {
    stats.known.struct_size = size;
    FAILS(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_stats(pool, &stats.known));
  }

  memset(&stats, 0xff, sizeof stats);
  stats.known.struct_size = sizeof stats;
  OK(gpupool_stats(pool, &stats.known));
  CHECK(stats.known.struct_size == sizeof stats.known);
  CHECK(stats.known.limit_bytes == 1 << 30);
  CHECK(all_bytes(stats.tail, 0, TAIL, 0xff));
  OK(gpupool_destroy(pool));
}

static void test_error(void) {
  FAILS(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create(NULL, NULL));

  long_error_t error;
  memset(&error, 0xff, sizeof error);
  error.known.struct_size = offsetof(gpupool_error_t, message);
  OK(gpupool_last_error(&error.known));
  CHECK(error.known.struct_size == offsetof(gpupool_error_t, message));
  CHECK(error.known.status == GPUPOOL_ERROR_INVALID_ARGUMENT);
  CHECK(all_bytes(&error, offsetof(gpupool_error_t, message), sizeof error, 0xff));

  for (uint32_t size = 0; size < SHORTEST; ++size) {
    error.known.struct_size = size;
    FAILS(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_last_error(&error.known));
  }

  memset(&error, 0xff, sizeof error);
  error.known.struct_size = sizeof error;
  OK(gpupool_last_error(&error.known));
  CHECK(error.known.struct_size == sizeof error.known);
  CHECK(error.known.status == GPUPOOL_ERROR_INVALID_ARGUMENT);
  CHECK(all_bytes(error.tail, 0, TAIL, 0xff));
}

static void test_device_info(void) {
  long_device_info_t info;
  memset(&info, 0xff, sizeof info);
  info.known.struct_size = offsetof(gpupool_device_info_t, total_bytes);
  OK(gpupool_device_info(GPUPOOL_BACKEND_SIM, 3, &info.known));
  CHECK(info.known.struct_size == offsetof(gpupool_device_info_t, total_bytes));
  CHECK(info.known.device == 3);
  CHECK(all_bytes(&info, offsetof(gpupool_device_info_t, total_bytes), sizeof info, 0xff));

  for (uint32_t size = 0; size < SHORTEST; ++size) {
    info.known.struct_size = size;
    FAILS(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_device_info(GPUPOOL_BACKEND_SIM, 0, &info.known));
  }

  memset(&info, 0xff, sizeof info);
  info.known.struct_size = sizeof info;
  OK(gpupool_device_info(GPUPOOL_BACKEND_SIM, 0, &info.known));
  CHECK(info.known.struct_size == sizeof info.known);
  CHECK(info.known.total_bytes != 0);
  CHECK(all_bytes(info.tail, 0, TAIL, 0xff));
}

static void test_sim_config(void) {
  // Shorter: the capacity behind the struct is not read.
  long_sim_config_t config;
  memset(&config, 0xff, sizeof config);
  config.known.struct_size = offsetof(gpupool_sim_config_t, capacity_bytes);
  config.known.data = 2;
  OK(gpupool_sim_configure(5, &config.known));
  gpupool_device_info_t info;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  OK(gpupool_device_info(GPUPOOL_BACKEND_SIM, 5, &info));
  CHECK(info.total_bytes == UINT64_C(150754820096));

  for (uint32_t size = 0; size < SHORTEST; ++size) {
    config.known.struct_size = size;
    FAILS(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_sim_configure(5, &config.known));
  }

  memset(&config, 0, sizeof config);
  config.known.struct_size = sizeof config;
  config.known.capacity_bytes = UINT64_C(1) << 30;
  OK(gpupool_sim_configure(5, &config.known));
  OK(gpupool_device_info(GPUPOOL_BACKEND_SIM, 5, &info));
  CHECK(info.total_bytes == UINT64_C(1) << 30);
  config.tail[0] = 1;
  FAILS(GPUPOOL_ERROR_UNSUPPORTED, gpupool_sim_configure(5, &config.known));
}

// Structs in arrays have no size of their own: the caller gives that of an element.
static void test_element_sizes(void) {
  gpupool_t* pool = new_pool(0);
  const gpupool_ptr_t first = new_block(pool, 4096);
  const gpupool_ptr_t second = new_block(pool, UINT64_C(64) << 20);

  struct {
    gpupool_block_t known;
    unsigned char tail[TAIL];
  } block, blocks[64];
  memset(&block, 0xff, sizeof block);
  OK(gpupool_block_info(pool, first, &block.known, offsetof(gpupool_block_t, allocated_bytes)));
  CHECK(block.known.address == first && block.known.requested_bytes == 4096);
  CHECK(all_bytes(&block, offsetof(gpupool_block_t, allocated_bytes), sizeof block, 0xff));
  memset(&block, 0, sizeof block);
  OK(gpupool_block_info(pool, second, &block.known, sizeof block));
  CHECK(block.known.address == second && block.known.state == GPUPOOL_BLOCK_LIVE);
  CHECK(all_bytes(block.tail, 0, TAIL, 0));

  struct {
    gpupool_segment_t known;
    unsigned char tail[TAIL];
  } segments[64];
  memset(segments, 0, sizeof segments);
  memset(blocks, 0, sizeof blocks);
  size_t segment_count = 0;
  size_t block_count = 0;
  OK(gpupool_snapshot(pool, &segments[0].known, sizeof segments[0], 64, &segment_count, &blocks[0].known,
                      sizeof blocks[0], 64, &block_count));
  REQUIRE(segment_count >= 2 && segment_count <= 64 && block_count >= 2 && block_count <= 64);
  int found = 0;
  for (size_t i = 0; i < block_count; ++i) {
    CHECK(all_bytes(blocks[i].tail, 0, TAIL, 0));
    CHECK(i == 0 || blocks[i - 1].known.address < blocks[i].known.address);
    found += blocks[i].known.address == first || blocks[i].known.address == second;
  }
  CHECK(found == 2);
  for (size_t i = 0; i < segment_count; ++i) CHECK(segments[i].known.size_bytes != 0);

  // Elements of one field: addresses side by side.
  uint64_t addresses[65];
  memset(addresses, 0xff, sizeof addresses);
  size_t count = 0;
  OK(gpupool_snapshot(pool, NULL, sizeof(gpupool_segment_t), 0, &segment_count, (gpupool_block_t*)addresses,
                      sizeof addresses[0], 64, &count));
  CHECK(count == block_count);
  for (size_t i = 0; i < count; ++i) CHECK(addresses[i] == blocks[i].known.address);
  CHECK(addresses[count] == UINT64_MAX);

  OK(gpupool_free(pool, first, 0));
  OK(gpupool_free(pool, second, 0));
  OK(gpupool_destroy(pool));
}

int main(void) {
  test_config();
  test_garbage_sizes();
  test_stats();
  test_error();
  test_device_info();
  test_sim_config();
  test_element_sizes();
  return finish();
}
