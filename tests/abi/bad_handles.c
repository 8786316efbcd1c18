// SPDX-License-Identifier: Apache-2.0
// Every function that takes a pool, with invalid handles; and every out-parameter that must not be NULL.
#include "support/check.h"

#define INVALID GPUPOOL_ERROR_INVALID_ARGUMENT

static int32_t no_memory(void* user, gpupool_t* pool, uint64_t size, uint32_t attempt) {
  (void)user, (void)pool, (void)size, (void)attempt;
  return 0;
}

// All functions refuse this pool, and clear what they would have written.
static void test_bad_pool(gpupool_t* pool) {
  gpupool_ptr_t block = 1;
  FAILS(INVALID, gpupool_malloc(pool, 512, 0, &block));
  CHECK(block == 0);
  block = 1;
  FAILS(INVALID, gpupool_malloc_aligned(pool, 512, 512, 0, &block));
  CHECK(block == 0);
  block = 1;
  FAILS(INVALID, gpupool_malloc_behind(pool, 512, 0, 0, &block));
  CHECK(block == 0);
  FAILS(INVALID, gpupool_count_parts(pool, GPUPOOL_BLOCK_LIVE, 1, 0, 1, 512, 512));
  FAILS(INVALID, gpupool_free(pool, 512, 0));
  FAILS(INVALID, gpupool_record_stream(pool, 512, 1));
  gpupool_block_t description;
  FAILS(INVALID, gpupool_block_info(pool, 512, &description, sizeof description));
  FAILS(INVALID, gpupool_release_stream(pool, 1));
  FAILS(INVALID, gpupool_park_stream(pool, 1));
  FAILS(INVALID, gpupool_synchronize(pool));
  uint64_t capture = 1;
  FAILS(INVALID, gpupool_capture_id(pool, 0, &capture));
  CHECK(capture == 0);
  FAILS(INVALID, gpupool_release_capture(pool, 1));
  FAILS(INVALID, gpupool_announce_capture(pool, 1));
  FAILS(INVALID, gpupool_enable_peer(pool, 1));
  gpupool_t* child = pool;
  FAILS(INVALID, gpupool_create_child(pool, &child));
  CHECK(child == NULL);

  FAILS(INVALID, gpupool_sleep(pool, NULL, NULL));
  FAILS(INVALID, gpupool_wake(pool, NULL, NULL));
  FAILS(INVALID, gpupool_sleep_block(pool, 512, NULL, NULL));
  FAILS(INVALID, gpupool_wake_block(pool, 512, NULL, NULL));
  FAILS(INVALID, gpupool_allow_sleep(pool, NULL));
  FAILS(INVALID, gpupool_set_sleep_hooks(pool, NULL, NULL, NULL));
  FAILS(INVALID, gpupool_set_name(pool, "name"));
  FAILS(INVALID, gpupool_set_keep(pool, 512, 1));
  FAILS(INVALID, gpupool_check(pool, NULL, NULL, 0));
  FAILS(INVALID, gpupool_protect(pool, 512, GPUPOOL_ACCESS_READ));
  FAILS(INVALID, gpupool_prepare_backup(pool, 512));
  char handle[GPUPOOL_EXPORT_BYTES] = "handle";
  FAILS(INVALID, gpupool_export(pool, 512, handle, sizeof handle));
  CHECK(handle[0] == '\0');
  uint64_t size = 1;
  block = 1;
  FAILS(INVALID, gpupool_import(pool, "handle", &block, &size));
  CHECK(block == 0 && size == 0);
  FAILS(INVALID, gpupool_import_close(pool, 512));
  gpupool_sleep_state_t state = GPUPOOL_SLEEP_STATE_AWAKE;
  FAILS(INVALID, gpupool_sleep_state(pool, &state));
  char name[8] = "name";
  size_t name_length = 1;
  FAILS(INVALID, gpupool_name(pool, name, sizeof name, &name_length));
  CHECK(name_length == 0);
  const void* data = name;
  uint64_t saved = 1;
  FAILS(INVALID, gpupool_backup(pool, 512, &data, &saved));
  CHECK(data == NULL && saved == 0);
  FAILS(INVALID, gpupool_read_backup(pool, 512, name, sizeof name));

  uint64_t released = 1;
  FAILS(INVALID, gpupool_empty(pool, &released));
  CHECK(released == 0);
  released = 1;
  FAILS(INVALID, gpupool_trim(pool, 0, &released));
  CHECK(released == 0);
  FAILS(INVALID, gpupool_reserve(pool, 1 << 20, 0));
  FAILS(INVALID, gpupool_set_fraction(pool, 0.5));
  FAILS(INVALID, gpupool_set_limit(pool, 1 << 30));
  FAILS(INVALID, gpupool_set_oom_handler(pool, no_memory, NULL));

  gpupool_stats_t stats;
  stats.struct_size = sizeof stats;
  FAILS(INVALID, gpupool_stats(pool, &stats));
  FAILS(INVALID, gpupool_reset_peaks(pool));
  size_t segments = 1;
  size_t blocks = 1;
  FAILS(INVALID, gpupool_snapshot(pool, NULL, sizeof(gpupool_segment_t), 0, &segments, NULL,
                                  sizeof(gpupool_block_t), 0, &blocks));
  CHECK(segments == 0 && blocks == 0);
  char text[16] = "text";
  size_t length = 1;
  FAILS(INVALID, gpupool_report(pool, text, sizeof text, &length));
  CHECK(length == 0);
  FAILS(INVALID, gpupool_validate(pool));
  size_t holders = 1;
  FAILS(INVALID, gpupool_holders(pool, NULL, sizeof(gpupool_holder_t), 0, &holders));
  CHECK(holders == 0);

  gpupool_stream_t stream = 1;
  FAILS(INVALID, gpupool_stream_create(pool, &stream));
  CHECK(stream == 0);
  FAILS(INVALID, gpupool_stream_destroy(pool, 1));
  FAILS(INVALID, gpupool_stream_synchronize(pool, 1));
  FAILS(INVALID, gpupool_copy(pool, 512, 1024, 512, 0));
  FAILS(INVALID, gpupool_fill(pool, 512, 0, 512, 0));
}

static void test_destroyed_pool(void) {
  gpupool_t* pool = new_pool(0);
  OK(gpupool_destroy(pool));
  test_bad_pool(pool);
  FAILS(INVALID, gpupool_destroy(pool));
}

// A destroyed pool with live blocks takes frees, and nothing else.
static void test_destroyed_pool_with_blocks(void) {
  gpupool_t* pool = new_pool(0);
  const gpupool_ptr_t first = new_block(pool, 4096);
  const gpupool_ptr_t last = new_block(pool, UINT64_C(8) << 20);
  OK(gpupool_destroy(pool));
  gpupool_ptr_t block = 1;
  FAILS(INVALID, gpupool_malloc(pool, 512, 0, &block));
  CHECK(block == 0);
  FAILS(INVALID, gpupool_destroy(pool));
  OK(gpupool_free(pool, first, 0));
  FAILS(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, first, 0));
  OK(gpupool_free(pool, last, 0));
  test_bad_pool(pool);
}

// Memory that is readable and was never a pool.
static void test_tags(void) {
  gpupool_sleep_options_t options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.flags = UINT32_MAX;
  FAILS(INVALID, gpupool_sleep_tag("tag", &options, NULL));
  FAILS(INVALID, gpupool_wake_tag("tag", &options, NULL));
  FAILS(INVALID, gpupool_sim_hold(-1, 512));
}

static void test_garbage(void) {
  static _Alignas(64) uint64_t garbage[512];  // as a pool is
  memset(garbage, 0, sizeof garbage);
  test_bad_pool((gpupool_t*)garbage);
  FAILS(INVALID, gpupool_destroy((gpupool_t*)garbage));
  memset(garbage, 0xab, sizeof garbage);
  test_bad_pool((gpupool_t*)garbage);
  FAILS(INVALID, gpupool_destroy((gpupool_t*)garbage));
}

static void test_default_pool(void) {
  gpupool_t* pool = NULL;
  gpupool_t* again = NULL;
  OK(gpupool_default_pool(0, &pool));
  OK(gpupool_default_pool(0, &again));
  CHECK(pool != NULL && pool == again);
  FAILS(INVALID, gpupool_destroy(pool));
  const gpupool_ptr_t block = new_block(pool, 512);
  OK(gpupool_free(pool, block, 0));
  FAILS(INVALID, gpupool_default_pool(-1, &again));
  CHECK(again == NULL);
  FAILS(INVALID, gpupool_default_pool(INT32_MAX, &again));
  FAILS(INVALID, gpupool_default_pool(0, NULL));
}

static void test_null_outputs(void) {
  FAILS(INVALID, gpupool_create(NULL, NULL));
  FAILS(INVALID, gpupool_config_init(NULL, sizeof(gpupool_config_t)));
  FAILS(INVALID, gpupool_last_error(NULL));
  FAILS(INVALID, gpupool_device_count(GPUPOOL_BACKEND_SIM, NULL));
  FAILS(INVALID, gpupool_device_info(GPUPOOL_BACKEND_SIM, 0, NULL));
  FAILS(INVALID, gpupool_sim_configure(0, NULL));
  FAILS(INVALID, gpupool_sim_script(0, NULL));

  gpupool_t* pool = new_pool(0);
  const gpupool_ptr_t block = new_block(pool, 512);
  FAILS(INVALID, gpupool_malloc(pool, 512, 0, NULL));
  FAILS(INVALID, gpupool_malloc_aligned(pool, 512, 512, 0, NULL));
  FAILS(INVALID, gpupool_malloc_behind(pool, 512, 0, 0, NULL));
  FAILS(INVALID, gpupool_block_info(pool, block, NULL, sizeof(gpupool_block_t)));
  FAILS(INVALID, gpupool_stats(pool, NULL));
  FAILS(INVALID, gpupool_stream_create(pool, NULL));
  FAILS(INVALID, gpupool_export(pool, block, NULL, GPUPOOL_EXPORT_BYTES));
  gpupool_ptr_t imported = 1;
  uint64_t size = 1;
  FAILS(INVALID, gpupool_import(pool, NULL, &imported, &size));
  CHECK(imported == 0 && size == 0);
  FAILS(INVALID, gpupool_import(pool, "handle", NULL, &size));
  FAILS(INVALID, gpupool_import(pool, "handle", &imported, NULL));
  size_t count = 1;
  FAILS(INVALID, gpupool_snapshot(pool, NULL, sizeof(gpupool_segment_t), 0, NULL, NULL,
                                  sizeof(gpupool_block_t), 0, &count));
  FAILS(INVALID, gpupool_snapshot(pool, NULL, sizeof(gpupool_segment_t), 0, &count, NULL,
                                  sizeof(gpupool_block_t), 0, NULL));
  // Room is promised and none is given.
  size_t blocks = 1;
  FAILS(INVALID, gpupool_snapshot(pool, NULL, sizeof(gpupool_segment_t), 1, &count, NULL,
                                  sizeof(gpupool_block_t), 0, &blocks));
  FAILS(INVALID, gpupool_snapshot(pool, NULL, sizeof(gpupool_segment_t), 0, &count, NULL,
                                  sizeof(gpupool_block_t), 1, &blocks));
  FAILS(INVALID, gpupool_report(pool, NULL, 16, &count));
  FAILS(INVALID, gpupool_sim_faults(0, NULL, NULL, 16));

  // These may be NULL.
  OK(gpupool_empty(pool, NULL));
  OK(gpupool_trim(pool, 0, NULL));
  OK(gpupool_report(pool, NULL, 0, NULL));
  OK(gpupool_sim_faults(0, NULL, NULL, 0));
  OK(gpupool_set_oom_handler(pool, NULL, NULL));

  CHECK(stats_of(pool).all.allocated_blocks.current == 1);
  OK(gpupool_free(pool, block, 0));
  OK(gpupool_validate(pool));
  OK(gpupool_destroy(pool));
}

int main(void) {
  test_bad_pool(NULL);
  OK(gpupool_destroy(NULL));
  test_destroyed_pool();
  test_destroyed_pool_with_blocks();
  test_garbage();
  test_tags();
  test_default_pool();
  test_null_outputs();
  return finish();
}
