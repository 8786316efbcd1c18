// SPDX-License-Identifier: Apache-2.0
// Numbers out of range, to functions with good handles.
#include <math.h>

#include "support/check.h"

#define INVALID GPUPOOL_ERROR_INVALID_ARGUMENT

static gpupool_config_t sim_config(void) {
  gpupool_config_t config;
  OK(gpupool_config_init(&config, sizeof config));
  config.backend = GPUPOOL_BACKEND_SIM;
  return config;
}

// The configuration is refused with one of the two statuses, and gives no pool.
static void refused(int line, const gpupool_config_t* config, gpupool_status_t expected,
                    gpupool_status_t other) {
  gpupool_t* pool = (gpupool_t*)&pool;
  check_status(__FILE__, line, "gpupool_create", gpupool_create(config, &pool), expected, other);
  CHECK(pool == NULL);
}

// Fails a configuration that is good but for one field.
#define REFUSED_EITHER(expected, other, field, value) \
  do {                                                \
    gpupool_config_t bad = sim_config();              \
    bad.field = (value);                              \
    refused(__LINE__, &bad, (expected), (other));     \
  } while (0)
#define REFUSED(expected, field, value) REFUSED_EITHER(expected, expected, field, value)

static void test_config(void) {
  REFUSED(INVALID, device, -1);
  REFUSED(INVALID, device, 8);
  REFUSED(INVALID, device, INT32_MAX);
  REFUSED(INVALID, backend, 4);
  REFUSED(INVALID, backend, -1);
  REFUSED(INVALID, mode, 4);
  REFUSED(INVALID, mode, -1);
  REFUSED(INVALID, kind, 3);
  REFUSED(INVALID, kind, -1);
  REFUSED(INVALID, flags, 2);
  REFUSED(INVALID, flags, UINT32_C(1) << 31);
  REFUSED(INVALID, fraction, -0.5);
  REFUSED(INVALID, fraction, 1.5);
  REFUSED(INVALID, fraction, (double)NAN);
  REFUSED(INVALID, fraction, (double)INFINITY);
  REFUSED(INVALID, slack, -0.5);
  REFUSED(INVALID, slack, 10.5);
  REFUSED(INVALID, slack, (double)NAN);
  REFUSED(INVALID, max_chunk_bytes, 1);
  REFUSED(INVALID, max_chunk_bytes, UINT64_C(1) << 20);
  REFUSED(INVALID, max_chunk_bytes, UINT64_C(3) << 20);
  REFUSED(INVALID, max_chunk_bytes, UINT64_MAX);
  REFUSED(INVALID, peer_count, 1);                // and no peers
  REFUSED(INVALID, mode, GPUPOOL_MODE_UPSTREAM);  // and no callbacks
  REFUSED_EITHER(GPUPOOL_ERROR_UNSUPPORTED, INVALID, reserved0, 1);
  REFUSED_EITHER(GPUPOOL_ERROR_UNSUPPORTED, INVALID, reserved[3], 1);

  gpupool_config_t config = sim_config();
  config.kind = GPUPOOL_KIND_PINNED;
  config.mode = GPUPOOL_MODE_VMM;
  refused(__LINE__, &config, GPUPOOL_ERROR_UNSUPPORTED, GPUPOOL_ERROR_UNSUPPORTED);

  const int32_t no_such_device = 99;
  config = sim_config();
  config.peers = &no_such_device;
  config.peer_count = 1;
  refused(__LINE__, &config, INVALID, GPUPOOL_ERROR_UNSUPPORTED);

  // What a program gives that forgot to set struct_size.
  unsigned char garbage[4 * sizeof(gpupool_config_t)];
  memset(garbage, 0xff, sizeof garbage);
  memcpy(&config, garbage, sizeof config);
  refused(__LINE__, (const gpupool_config_t*)memcpy(garbage, &config, sizeof config),
          GPUPOOL_ERROR_UNSUPPORTED, INVALID);

  if ((gpupool_features() & GPUPOOL_FEATURE_CUDA) == 0) {
    REFUSED(GPUPOOL_ERROR_UNAVAILABLE, backend, GPUPOOL_BACKEND_CUDA);
    int32_t count = 1;
    FAILS(GPUPOOL_ERROR_UNAVAILABLE, gpupool_device_count(GPUPOOL_BACKEND_CUDA, &count));
    CHECK(count == 0);
  }
}

static void test_library(void) {
  CHECK(strcmp(gpupool_status_name((gpupool_status_t)99), "unknown status") == 0);
  CHECK(strcmp(gpupool_status_name(GPUPOOL_STATUS_FORCE32), "unknown status") == 0);
  FAILS(INVALID, gpupool_set_log(NULL, NULL, -1));
  FAILS(INVALID, gpupool_set_log(NULL, NULL, GPUPOOL_LOG_DEBUG + 1));

  CHECK(strcmp(gpupool_backend_name(GPUPOOL_BACKEND_CUDA), "cuda") == 0);
  CHECK(strcmp(gpupool_backend_name(GPUPOOL_BACKEND_SIM), "sim") == 0);
  CHECK(strcmp(gpupool_backend_name(GPUPOOL_BACKEND_HOST), "host") == 0);
  CHECK(gpupool_backend_name(GPUPOOL_BACKEND_AUTO) == NULL);
  CHECK(gpupool_backend_name(-1) == NULL);
  CHECK(gpupool_backend_name(77) == NULL);

  int32_t count = 1;
  FAILS(INVALID, gpupool_device_count((gpupool_backend_t)77, &count));
  CHECK(count == 0);
  gpupool_device_info_t info;
  info.struct_size = sizeof info;
  FAILS(INVALID, gpupool_device_info(GPUPOOL_BACKEND_SIM, -1, &info));
  FAILS(INVALID, gpupool_device_info(GPUPOOL_BACKEND_SIM, 8, &info));
  FAILS(INVALID, gpupool_device_info((gpupool_backend_t)77, 0, &info));
}

// What a failure must leave as it was.
typedef struct {
  uint64_t requested, allocated, active, reserved, blocks, limit;
} state_t;

static state_t state_of(gpupool_t* pool) {
  const gpupool_stats_t stats = stats_of(pool);
  const state_t state = {stats.all.requested_bytes.current,  stats.all.allocated_bytes.current,
                         stats.all.active_bytes.current,     stats.all.reserved_bytes.current,
                         stats.all.allocated_blocks.current, stats.limit_bytes};
  return state;
}

static void test_sizes(gpupool_t* pool) {
  const uint64_t sizes[] = {UINT64_MAX,        UINT64_MAX - 511,  UINT64_MAX - (2 << 20), UINT64_MAX >> 1,
                            UINT64_C(1) << 63, UINT64_C(1) << 48, UINT64_C(1) << 47};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    gpupool_ptr_t block = 1;
    FAILS_EITHER(GPUPOOL_ERROR_OUT_OF_MEMORY, INVALID, gpupool_malloc(pool, sizes[i], 0, &block));
    CHECK(block == 0);
    FAILS_EITHER(GPUPOOL_ERROR_OUT_OF_MEMORY, INVALID,
                 gpupool_malloc_aligned(pool, sizes[i], UINT64_C(2) << 20, 0, &block));
    CHECK(block == 0);
    block = 1;
    FAILS_EITHER(GPUPOOL_ERROR_OUT_OF_MEMORY, INVALID, gpupool_malloc_behind(pool, sizes[i], 0, 0, &block));
    CHECK(block == 0);
  }
  const uint64_t alignments[] = {0, 3, 513, UINT64_C(4) << 20, UINT64_C(1) << 63, UINT64_MAX};
  for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; ++i) {
    gpupool_ptr_t block = 1;
    FAILS(INVALID, gpupool_malloc_aligned(pool, 512, alignments[i], 0, &block));
    CHECK(block == 0);
  }
  gpupool_ptr_t nothing = 1;
  OK(gpupool_malloc(pool, 0, 0, &nothing));
  CHECK(nothing == 0);
  nothing = 1;
  OK(gpupool_malloc_behind(pool, 0, 0, 0, &nothing));
  CHECK(nothing == 0);
  FAILS(INVALID, gpupool_count_parts(pool, GPUPOOL_BLOCK_CACHED, 1, 0, 1, 512, 512));
  FAILS(INVALID, gpupool_count_parts(pool, -1, 1, 0, 1, 512, 512));
  FAILS(INVALID, gpupool_count_parts(pool, GPUPOOL_BLOCK_LIVE, 0, 0, 1, 512, 512));
  FAILS(INVALID, gpupool_count_parts(pool, GPUPOOL_BLOCK_LIVE, 2, 0, 1, 512, 512));
}

static void test_streams(gpupool_t* pool, gpupool_ptr_t live) {
  gpupool_ptr_t block = 1;
  FAILS(INVALID, gpupool_malloc(pool, 512, (gpupool_stream_t)GPUPOOL_STREAM_UNKNOWN, &block));
  CHECK(block == 0);
  block = 1;
  FAILS(INVALID, gpupool_malloc_behind(pool, 512, 0, (gpupool_stream_t)GPUPOOL_STREAM_UNKNOWN, &block));
  CHECK(block == 0);
  FAILS(INVALID, gpupool_record_stream(pool, live, (gpupool_stream_t)GPUPOOL_STREAM_UNKNOWN));
  FAILS(INVALID, gpupool_release_capture(pool, 0));
  FAILS(INVALID, gpupool_announce_capture(pool, 0));
  FAILS(INVALID, gpupool_capture_id(pool, 0, NULL));
  FAILS(INVALID, gpupool_enable_peer(pool, -1));
  FAILS(INVALID, gpupool_enable_peer(pool, 8));
  OK(gpupool_enable_peer(pool, 0));
  FAILS(INVALID, gpupool_release_stream(pool, (gpupool_stream_t)GPUPOOL_STREAM_UNKNOWN));
  OK(gpupool_release_stream(pool, 12345));  // never seen
  FAILS(INVALID, gpupool_park_stream(pool, (gpupool_stream_t)GPUPOOL_STREAM_UNKNOWN));
  OK(gpupool_park_stream(pool, 12345));
}

static void test_limits(gpupool_t* pool) {
  const double fractions[] = {
      0.0, 1e-300, -0.25, 1.0000001, (double)NAN, (double)INFINITY, -(double)INFINITY};
  for (size_t i = 0; i < sizeof fractions / sizeof fractions[0]; ++i) {
    FAILS(INVALID, gpupool_set_fraction(pool, fractions[i]));
  }
  // Less than live blocks hold.
  FAILS(GPUPOOL_ERROR_OVER_LIMIT, gpupool_set_fraction(pool, 1e-9));
  FAILS(GPUPOOL_ERROR_OVER_LIMIT, gpupool_set_limit(pool, 1));
}

static void test_element_sizes(gpupool_t* pool, gpupool_ptr_t live) {
  gpupool_block_t block;
  gpupool_segment_t segment;
  size_t segments = 1;
  size_t blocks = 1;
  FAILS(INVALID, gpupool_block_info(pool, live, &block, 0));
  FAILS(INVALID, gpupool_snapshot(pool, &segment, 0, 1, &segments, NULL, sizeof block, 0, &blocks));
  FAILS(INVALID, gpupool_snapshot(pool, NULL, sizeof segment, 0, &segments, &block, 0, 1, &blocks));
}

static void test_watching(gpupool_t* pool) {
  gpupool_holder_t holder;
  size_t count = 1;
  FAILS(INVALID, gpupool_holders(pool, &holder, 0, 1, &count));
  FAILS(INVALID, gpupool_holders(pool, NULL, sizeof holder, 1, &count));
  FAILS(INVALID, gpupool_set_sampling(UINT64_MAX));
  FAILS(INVALID, gpupool_set_stack_fn(NULL, pool));
  FAILS(INVALID, gpupool_set_interrupt_check(NULL, NULL, 1));
  FAILS(INVALID, gpupool_tag_push(NULL));
  FAILS(INVALID, gpupool_tag_push(""));
  FAILS(INVALID, gpupool_tag_pop());
  FAILS(INVALID, gpupool_set_debug("poison,fense"));
  FAILS(INVALID, gpupool_set_debug("poison,"));
  FAILS(INVALID, gpupool_set_debug("quarantine=40%"));
  FAILS(INVALID, gpupool_set_debug("quarantine=0"));
  FAILS(INVALID, gpupool_why(512, NULL, 1, NULL));
  FAILS(INVALID, gpupool_mark(NULL));
  FAILS(INVALID, gpupool_mark(""));
  FAILS(INVALID, gpupool_record_stop());
  FAILS(INVALID, gpupool_record_start(NULL, 0));
  FAILS(INVALID, gpupool_record_start("", 0));
  FAILS(INVALID, gpupool_record_start("/no/such/folder/file", 0));
  FAILS(INVALID, gpupool_record_start("unused", 4));
  FAILS(INVALID, gpupool_record_start("unused,last=", 0));
  FAILS(INVALID, gpupool_record_start("unused,last=0.5s", 0));
  FAILS(INVALID, gpupool_record_start(",last=1MiB", 0));
}

static void test_values(void) {
  gpupool_t* pool = new_pool(0);
  const gpupool_ptr_t live = new_block(pool, UINT64_C(4) << 20);
  const state_t before = state_of(pool);
  test_sizes(pool);
  test_streams(pool, live);
  test_limits(pool);
  test_element_sizes(pool, live);
  test_watching(pool);
  const state_t after = state_of(pool);
  CHECK(memcmp(&before, &after, sizeof before) == 0);
  OK(gpupool_validate(pool));
  OK(gpupool_free(pool, live, 0));
  OK(gpupool_destroy(pool));
}

// More than the device has takes nothing that cannot be given back.
static void test_reserve_too_much(void) {
  gpupool_sim_config_t small;
  memset(&small, 0, sizeof small);
  small.struct_size = sizeof small;
  small.capacity_bytes = UINT64_C(1) << 30;
  OK(gpupool_sim_configure(7, &small));
  gpupool_config_t config = sim_config();
  config.device = 7;
  gpupool_t* pool = NULL;
  OK(gpupool_create(&config, &pool));
  FAILS(INVALID, gpupool_reserve(pool, 1 << 20, (gpupool_stream_t)GPUPOOL_STREAM_UNKNOWN));
  FAILS(GPUPOOL_ERROR_OUT_OF_MEMORY, gpupool_reserve(pool, UINT64_C(2) << 30, 0));
  for (unsigned bits = 45; bits < 64; ++bits)
    FAILS(GPUPOOL_ERROR_OUT_OF_MEMORY, gpupool_reserve(pool, UINT64_C(1) << bits, 0));
  FAILS(GPUPOOL_ERROR_OUT_OF_MEMORY, gpupool_reserve(pool, UINT64_MAX, 0));
  CHECK(stats_of(pool).all.reserved_bytes.current <= UINT64_C(1) << 30);
  OK(gpupool_empty(pool, NULL));
  CHECK(stats_of(pool).all.reserved_bytes.current == 0);
  OK(gpupool_set_limit(pool, UINT64_C(64) << 20));
  FAILS(GPUPOOL_ERROR_OVER_LIMIT, gpupool_reserve(pool, UINT64_C(65) << 20, 0));
  gpupool_ptr_t block = 1;
  FAILS(GPUPOOL_ERROR_OVER_LIMIT, gpupool_malloc(pool, UINT64_C(65) << 20, 0, &block));
  CHECK(block == 0);
  OK(gpupool_destroy(pool));
}

static void test_simulated_device(void) {
  gpupool_sim_config_t config;
  memset(&config, 0, sizeof config);
  config.struct_size = sizeof config;
  FAILS(INVALID, gpupool_sim_configure(-1, &config));
  FAILS(INVALID, gpupool_sim_configure(8, &config));
  config.data = 3;
  FAILS(INVALID, gpupool_sim_configure(6, &config));
  config.data = 0;
  config.price_scale = -1;
  FAILS(INVALID, gpupool_sim_configure(6, &config));
  config.price_scale = (double)NAN;
  FAILS(INVALID, gpupool_sim_configure(6, &config));
  config.price_scale = 0;
  config.streams = 3;
  FAILS(INVALID, gpupool_sim_configure(6, &config));
  config.streams = 0;
  config.reserved[0] = 1;
  FAILS_EITHER(GPUPOOL_ERROR_UNSUPPORTED, INVALID, gpupool_sim_configure(6, &config));

  // Addresses only: nothing can be copied, and a pool pins the settings.
  memset(&config, 0, sizeof config);
  config.struct_size = sizeof config;
  config.data = 2;
  OK(gpupool_sim_configure(6, &config));
  gpupool_config_t on_device = sim_config();
  on_device.device = 6;
  gpupool_t* pool = NULL;
  OK(gpupool_create(&on_device, &pool));
  FAILS(INVALID, gpupool_sim_configure(6, &config));
  const gpupool_ptr_t block = new_block(pool, 1024);
  FAILS(GPUPOOL_ERROR_UNSUPPORTED, gpupool_copy(pool, block, block + 512, 512, 0));
  OK(gpupool_free(pool, block, 0));
  OK(gpupool_destroy(pool));

  const char* scripts[] = {"nonsense", "create",          "create:",
                           "create:x", "create:0",        "create:1=melt",
                           "bogus:1",  "create:1,,map:1", "create:99999999999999999999999"};
  for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; ++i)
    FAILS(INVALID, gpupool_sim_script(6, scripts[i]));
  FAILS(INVALID, gpupool_sim_script(8, ""));
  FAILS(INVALID, gpupool_sim_work(8, 0, 0, 0, 1));
  FAILS(INVALID, gpupool_sim_advance(-1, 1));
  FAILS(INVALID, gpupool_sim_capture(8, 0, 1));
  FAILS(INVALID, gpupool_sim_capture(6, 0, 3));
  FAILS(INVALID, gpupool_sim_launch(8, 1, 0));
  FAILS(INVALID, gpupool_sim_launch(6, 0, 0));  // there was no capture
  FAILS(INVALID, gpupool_sim_launch(6, 1, 0));
  uint64_t count = 1;
  FAILS(INVALID, gpupool_sim_faults(8, &count, NULL, 0));
  CHECK(count == 0);
}

int main(void) {
  test_library();
  test_config();
  test_values();
  test_reserve_too_much();
  test_simulated_device();
  return finish();
}
