// SPDX-License-Identifier: Apache-2.0
// Bad input to the sharing functions, beside a group of one member. The region's folder belongs to this
// program.
#define _GNU_SOURCE
#include <unistd.h>

#include "support/check.h"

#define INVALID GPUPOOL_ERROR_INVALID_ARGUMENT
#define UNAVAILABLE GPUPOOL_ERROR_UNAVAILABLE
#define SIM GPUPOOL_BACKEND_SIM

static gpupool_config_t shared_config(void) {
  gpupool_config_t config;
  OK(gpupool_config_init(&config, sizeof config));
  config.backend = SIM;
  config.share = "team";
  return config;
}

static void test_config(void) {
  const char* names[] = {" ", "a b", "../x", "a/b", "1234567890123456789012345678901234567890123456789"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    gpupool_config_t config = shared_config();
    config.share = names[i];
    gpupool_t* pool = NULL;
    FAILS(INVALID, gpupool_create(&config, &pool));
    CHECK(pool == NULL);
  }
  gpupool_t* pool = NULL;
  gpupool_config_t config = shared_config();
  config.priority = 9;
  FAILS(INVALID, gpupool_create(&config, &pool));
  config = shared_config();
  config.priority = -9;
  FAILS(INVALID, gpupool_create(&config, &pool));
  config = shared_config();
  config.share_wait_ns = UINT64_C(10000000001);
  FAILS(INVALID, gpupool_create(&config, &pool));
  config = shared_config();
  config.share = "";
  config.guaranteed_bytes = 1;
  FAILS(INVALID, gpupool_create(&config, &pool));
  config = shared_config();
  config.kind = GPUPOOL_KIND_PINNED;
  FAILS(GPUPOOL_ERROR_UNSUPPORTED, gpupool_create(&config, &pool));
  config = shared_config();
  config.guaranteed_bytes = UINT64_C(1) << 60;
  FAILS_EITHER(GPUPOOL_ERROR_OVER_LIMIT, INVALID, gpupool_create(&config, &pool));
  config = shared_config();
  config.reserved1 = 1;
  FAILS_EITHER(INVALID, GPUPOOL_ERROR_UNSUPPORTED, gpupool_create(&config, &pool));
  CHECK(pool == NULL);
}

static void test_no_group(void) {
  gpupool_share_t info;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  size_t count = 9;
  FAILS(UNAVAILABLE,
        gpupool_share_info("none", SIM, 0, &info, NULL, sizeof(gpupool_share_member_t), 0, &count));
  CHECK(count == 0);
  FAILS(UNAVAILABLE, gpupool_share_set("none", SIM, 0, GPUPOOL_SHARE_FIGURE_LIMIT, 0, 1 << 30));
  FAILS(UNAVAILABLE, gpupool_share_repair("none", SIM, 0, NULL));
  FAILS(INVALID, gpupool_share_repair(NULL, SIM, 0, NULL));  // the environment names none
  FAILS(INVALID, gpupool_share_repair("a/b", SIM, 0, NULL));
  FAILS(INVALID, gpupool_share_repair("none", SIM, 8, NULL));
  FAILS(INVALID, gpupool_share_repair("none", (gpupool_backend_t)9, 0, NULL));
}

static void test_group(gpupool_t* pool) {
  const size_t size = sizeof(gpupool_share_member_t);
  gpupool_share_t info;
  memset(&info, 0, sizeof info);
  size_t count = 9;
  FAILS(INVALID, gpupool_share_info("team", SIM, 0, &info, NULL, size, 0, &count));  // no struct_size
  info.struct_size = sizeof info;
  FAILS(INVALID, gpupool_share_info("team", SIM, 0, NULL, NULL, size, 0, &count));
  FAILS(INVALID, gpupool_share_info("team", SIM, 0, &info, NULL, size, 1, &count));
  FAILS(INVALID, gpupool_share_info("team", SIM, 0, &info, NULL, 0, 0, &count));
  FAILS(INVALID, gpupool_share_info("team", SIM, 0, &info, NULL, size, 0, NULL));
  gpupool_share_member_t member;
  OK(gpupool_share_info("team", SIM, 0, &info, &member, size, 1, &count));
  REQUIRE(count == 1);
  const uint64_t limit = info.limit_bytes;

  FAILS(INVALID, gpupool_share_set("team", SIM, 0, 0, member.slot, 1));
  FAILS(INVALID, gpupool_share_set("team", SIM, 0, 5, member.slot, 1));
  FAILS(INVALID, gpupool_share_set("team", SIM, 0, GPUPOOL_SHARE_FIGURE_LIMIT, 0, 0));
  FAILS(INVALID, gpupool_share_set("team", SIM, 0, GPUPOOL_SHARE_FIGURE_LIMIT, 0, -1));
  for (uint32_t other = member.slot + 1; other != 0; other = other < 1000 ? UINT32_MAX : 0) {
    FAILS(INVALID, gpupool_share_set("team", SIM, 0, GPUPOOL_SHARE_FIGURE_MEMBER_LIMIT, other, 1 << 30));
    FAILS(INVALID, gpupool_share_set("team", SIM, 0, GPUPOOL_SHARE_FIGURE_MEMBER_GUARANTEE, other, 1));
    FAILS(INVALID, gpupool_share_set("team", SIM, 0, GPUPOOL_SHARE_FIGURE_MEMBER_PRIORITY, other, 1));
  }
  FAILS(INVALID, gpupool_share_set("team", SIM, 0, GPUPOOL_SHARE_FIGURE_MEMBER_PRIORITY, member.slot, 9));
  FAILS(INVALID,
        gpupool_share_set("team", SIM, 0, GPUPOOL_SHARE_FIGURE_MEMBER_PRIORITY, member.slot, INT64_MIN));
  FAILS_EITHER(
      GPUPOOL_ERROR_OVER_LIMIT, INVALID,
      gpupool_share_set("team", SIM, 0, GPUPOOL_SHARE_FIGURE_MEMBER_GUARANTEE, member.slot, INT64_MAX));

  FAILS(GPUPOOL_ERROR_OVER_LIMIT, gpupool_share_request(pool, UINT64_MAX, 0));
  FAILS(INVALID, gpupool_share_request(pool, 1, UINT64_MAX));
  FAILS(INVALID, gpupool_share_request(NULL, 1, 0));
  FAILS(GPUPOOL_ERROR_OVER_LIMIT, gpupool_share_request(pool, UINT64_C(1) << 50, 0));

  // Nothing of it has changed the group.
  OK(gpupool_share_info("team", SIM, 0, &info, &member, size, 1, &count));
  CHECK(count == 1 && info.limit_bytes == limit && member.priority == 0 && member.guaranteed_bytes == 0 &&
        member.limit_bytes == 0);
}

int main(void) {
  char folder[] = "/tmp/gpupool-bad-share-XXXXXX";
  REQUIRE(mkdtemp(folder) != NULL);
  REQUIRE(setenv("GPUPOOL_SHARE_DIR", folder, 1) == 0 && unsetenv("GPUPOOL_SHARE") == 0);
  test_config();
  test_no_group();
  gpupool_config_t config = shared_config();
  gpupool_t* pool = NULL;
  OK(gpupool_create(&config, &pool));
  test_group(pool);
  OK(gpupool_destroy(pool));
  char command[sizeof folder + 16];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  CHECK(system(command) == 0);
  return finish();
}
