// SPDX-License-Identifier: Apache-2.0
// The message of a refused call: one line that names the argument, its value and what is allowed.
#define _GNU_SOURCE  // setenv
#include <stddef.h>
#include <stdlib.h>

#include "support/check.h"

#define INVALID GPUPOOL_ERROR_INVALID_ARGUMENT
#define UNSUPPORTED GPUPOOL_ERROR_UNSUPPORTED

// The last call of this thread failed, and its message is this.
static void says(int line, gpupool_status_t status, gpupool_status_t expected, const char* words) {
  gpupool_error_t error;
  error.struct_size = sizeof error;
  check_status(__FILE__, line, words, status, expected, expected);
  CHECK(gpupool_last_error(&error) == GPUPOOL_SUCCESS);
  if (strcmp(error.message, words) != 0) {
    fprintf(stderr, "%s:%d: \"%s\"\n  instead of \"%s\"\n", __FILE__, line, error.message, words);
    ++check_failures;
  }
}
#define SAYS(expected, words, call) says(__LINE__, (call), (expected), (words))

static gpupool_status_t create(const gpupool_config_t* config) {
  gpupool_t* pool = NULL;
  return gpupool_create(config, &pool);
}

// A configuration that is good but for one field.
#define FIELD_SAYS(expected, words, field, value) \
  do {                                            \
    gpupool_config_t bad = config_for(0);         \
    bad.field = (value);                          \
    SAYS(expected, words, create(&bad));          \
  } while (0)

static int32_t no_upstream(void* user, uint64_t size, gpupool_stream_t stream, gpupool_ptr_t* out_ptr) {
  (void)user, (void)size, (void)stream, (void)out_ptr;
  return 1;
}

static void test_fields(void) {
  FIELD_SAYS(INVALID, "there is no device -1: the backend has 8", device, -1);
  FIELD_SAYS(INVALID, "there is no device 99: the backend has 8", device, 99);
  FIELD_SAYS(INVALID, "backend is 9, not 0 (auto), 1 (cuda), 2 (sim) or 3 (host)", backend, 9);
  FIELD_SAYS(INVALID, "flags is 0x9, with bits other than 0x1 (capture-aware)", flags, 9);
  FIELD_SAYS(INVALID, "mode is 4, not 0 (auto), 1 (vmm), 2 (driver) or 3 (upstream)", mode, 4);
  FIELD_SAYS(INVALID, "kind is -1, not 0 (device), 1 (pinned) or 2 (managed)", kind, -1);
  FIELD_SAYS(INVALID, "fraction is 50, not in (0, 1], nor 0 for no such limit", fraction, 50);
  FIELD_SAYS(INVALID, "slack is -0.5, not in [0, 10], nor -1 for always tight", slack, -0.5);
  FIELD_SAYS(INVALID,
             "max_chunk_bytes is 3145728, not a power of two from 2 MiB to 16 GiB, nor 0 for the default",
             max_chunk_bytes, 3 << 20);
  FIELD_SAYS(INVALID, "peer_count is 65, not 0 to 64", peer_count, 65);
  FIELD_SAYS(INVALID, "peers is NULL, and peer_count is 1", peer_count, 1);
  FIELD_SAYS(INVALID, "upstream_malloc is NULL, and mode 3 (upstream) needs it", mode, GPUPOOL_MODE_UPSTREAM);
  FIELD_SAYS(INVALID, "upstream_malloc is set, and mode is 0, not 3 (upstream)", upstream_malloc,
             no_upstream);
  FIELD_SAYS(UNSUPPORTED, "reserved0 is 7, not 0", reserved0, 7);
  FIELD_SAYS(UNSUPPORTED, "reserved[2] is 7, not 0", reserved[2], 7);

  gpupool_config_t config = config_for(0);
  config.mode = GPUPOOL_MODE_UPSTREAM;
  config.upstream_malloc = no_upstream;
  SAYS(INVALID, "upstream_free is NULL, and mode 3 (upstream) needs it", create(&config));
  config = config_for(0);
  config.mode = GPUPOOL_MODE_VMM;
  config.kind = GPUPOOL_KIND_PINNED;
  SAYS(UNSUPPORTED, "kind is 1, and mode 1 (vmm) is for kind 0 (device) only", create(&config));
}

// As FIELD_SAYS, of a simulated device's configuration.
#define SIM_SAYS(expected, words, field, value)            \
  do {                                                     \
    gpupool_sim_config_t bad;                              \
    memset(&bad, 0, sizeof bad);                           \
    bad.struct_size = sizeof bad;                          \
    bad.field = (value);                                   \
    SAYS(expected, words, gpupool_sim_configure(5, &bad)); \
  } while (0)

static void test_fields_of_the_simulated_device(void) {
  SIM_SAYS(INVALID, "data is 3, not 1 (memory) or 2 (addresses only), nor 0 for the default", data, 3);
  SIM_SAYS(INVALID, "capacity_bytes is 1, not 2 MiB to 64 TiB, nor 0 for an H200's", capacity_bytes, 1);
  SIM_SAYS(INVALID, "price_scale is -2, not in (0, 1e6], nor 0 for an H200's", price_scale, -2);
  SIM_SAYS(INVALID, "streams is 3, not 1 (any number) or 2 (created ones), nor 0 for the default", streams,
           3);
  SIM_SAYS(UNSUPPORTED, "reserved0 is 7, not 0", reserved0, 7);
  SIM_SAYS(UNSUPPORTED, "reserved[1] is 7, not 0", reserved[1], 7);
}

static void test_sizes_of_structs(gpupool_t* pool) {
  gpupool_config_t config = config_for(0);
  config.struct_size = 0;
  SAYS(INVALID, "config->struct_size is 0, not 8 to 65536: it is the sizeof of the struct", create(&config));
  SAYS(INVALID, "struct_size is 7, not 8 to 65536: it is the sizeof of the struct",
       gpupool_config_init(&config, 7));
  char words[256];
  snprintf(words, sizeof words, "struct_size is 1000, and version %s knows the first %zu bytes of config",
           gpupool_version_string(), sizeof config);
  SAYS(UNSUPPORTED, words, gpupool_config_init(&config, 1000));

  struct {
    gpupool_config_t known;
    unsigned char tail[8];
  } longer;
  memset(&longer, 0, sizeof longer);
  longer.known = config_for(0);
  longer.known.struct_size = sizeof longer;
  longer.tail[3] = 1;
  snprintf(
      words, sizeof words,
      "config->struct_size is %zu, and byte %zu is not zero: version %s knows the first %zu bytes, and the "
      "rest must be zero",
      sizeof longer, sizeof config + 3, gpupool_version_string(), sizeof config);
  SAYS(UNSUPPORTED, words, create(&longer.known));

  gpupool_stats_t stats;
  stats.struct_size = 4;
  SAYS(INVALID, "stats->struct_size is 4, not 8 to 65536: it is the sizeof of the struct",
       gpupool_stats(pool, &stats));
  gpupool_device_info_t info;
  info.struct_size = 70000;
  SAYS(INVALID, "info->struct_size is 70000, not 8 to 65536: it is the sizeof of the struct",
       gpupool_device_info(GPUPOOL_BACKEND_SIM, 0, &info));
  gpupool_block_t block;
  SAYS(INVALID, "block_size is 0, not 8 to 65536: it is the sizeof of the struct",
       gpupool_block_info(pool, 0, &block, 0));
  size_t segments = 0;
  size_t blocks = 0;
  SAYS(INVALID, "segment_size is 1, not 8 to 65536: it is the sizeof of the struct",
       gpupool_snapshot(pool, NULL, 1, 0, &segments, NULL, sizeof block, 0, &blocks));
}

static void test_calls(gpupool_t* pool) {
  gpupool_ptr_t ptr = 0;
  gpupool_t* other = NULL;
  SAYS(INVALID, "pool is NULL", gpupool_malloc(NULL, 512, 0, &ptr));
  SAYS(INVALID, "out_ptr is NULL", gpupool_malloc(pool, 512, 0, NULL));
  SAYS(INVALID, "alignment is 3, not a power of two of up to 2 MiB",
       gpupool_malloc_aligned(pool, 512, 3, 0, &ptr));
  SAYS(INVALID, "fraction is 1.5, not in (0, 1]", gpupool_set_fraction(pool, 1.5));
  SAYS(INVALID, "fraction is 1e-20, and of 150754820096 bytes that is no byte",
       gpupool_set_fraction(pool, 1e-20));
  SAYS(INVALID, "level is 9, not 0 (off), 1 (error), 2 (warning), 3 (info) or 4 (debug)",
       gpupool_set_log(NULL, NULL, 9));
  SAYS(INVALID, "there is no device 64: default pools are of devices 0 to 63",
       gpupool_default_pool(64, &other));
  SAYS(INVALID, "begin is 3, not 0, 1 or 2", gpupool_sim_capture(0, 0, 3));
}

// A text is called what it is to be, and is offered only what its reader takes.
static void test_texts(void) {
  uint64_t bytes = 0;
  double share = 0;
  SAYS(INVALID, "size is \"8 apples\", not a size such as 4096, 512KiB, 1.5GiB or 8GB",
       gpupool_parse_size("8 apples", &bytes, NULL));
  SAYS(INVALID, "size is \"40%\", a share, and bytes are wanted", gpupool_parse_size("40%", &bytes, NULL));
  SAYS(INVALID,
       "limit is \"8 apples\", not a size such as 4096, 512KiB, 1.5GiB or 8GB, or a share such as 40%",
       gpupool_parse_size("8 apples", &bytes, &share));
  SAYS(INVALID, "limit is \"140%\", not a share in (0%, 100%]", gpupool_parse_size("140%", &bytes, &share));
  SAYS(INVALID, "modes, \"fence=lots\" is \"lots\", not a size such as 4096, 512KiB, 1.5GiB or 8GB",
       gpupool_set_debug("fence=lots"));
}

// The environment, which a message names.
#define VARIABLE_SAYS(expected, words, name, value) \
  do {                                              \
    const gpupool_config_t config = config_for(0);  \
    CHECK(setenv(name, value, 1) == 0);             \
    SAYS(expected, words, create(&config));         \
    CHECK(unsetenv(name) == 0);                     \
  } while (0)

static void test_variables(void) {
  VARIABLE_SAYS(INVALID,
                "GPUPOOL_SHARE is \"a/b\", not 1 to 48 letters, digits, '-', '_' and '.', no '.' first",
                "GPUPOOL_SHARE", "a/b");
  VARIABLE_SAYS(INVALID, "GPUPOOL_SHARE_PRIORITY is \"99\", not a number from -8 to 8",
                "GPUPOOL_SHARE_PRIORITY", "99");
  VARIABLE_SAYS(INVALID, "GPUPOOL_SHARE_PRIORITY is \"high\", not a number from -8 to 8",
                "GPUPOOL_SHARE_PRIORITY", "high");
  FIELD_SAYS(INVALID, "share is \"a/b\", not 1 to 48 letters, digits, '-', '_' and '.', no '.' first", share,
             "a/b");
  FIELD_SAYS(INVALID, "priority is 99, not -8 to 8", priority, 99);
  gpupool_share_t info;
  size_t count = 0;
  info.struct_size = sizeof info;
  CHECK(setenv("GPUPOOL_SHARE", "a/b", 1) == 0);
  SAYS(INVALID, "GPUPOOL_SHARE is \"a/b\", not 1 to 48 letters, digits, '-', '_' and '.', no '.' first",
       gpupool_share_info(NULL, GPUPOOL_BACKEND_SIM, 0, &info, NULL, sizeof(gpupool_share_member_t), 0,
                          &count));
  SAYS(INVALID, "share is \"c/d\", not 1 to 48 letters, digits, '-', '_' and '.', no '.' first",
       gpupool_share_info("c/d", GPUPOOL_BACKEND_SIM, 0, &info, NULL, sizeof(gpupool_share_member_t), 0,
                          &count));
  CHECK(unsetenv("GPUPOOL_SHARE") == 0);
}

int main(void) {
  gpupool_t* pool = new_pool(0);
  test_texts();
  test_variables();
  test_fields();
  test_fields_of_the_simulated_device();
  test_sizes_of_structs(pool);
  test_calls(pool);
  OK(gpupool_destroy(pool));
  return finish();
}
