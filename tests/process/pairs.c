/* SPDX-License-Identifier: Apache-2.0 */
/* Cached pairs of malloc and free, as many as the first argument says, for test_pairs.py to count their
 * instructions: `plain`, `tagged`, after the pool has `slept` and woken, or `recorded` to the file that the
 * third argument names. */
#include "support/check.h"

static void run_pairs(gpupool_t* pool, long count) {
  for (long i = 0; i < count; ++i) {
    gpupool_ptr_t block = 0;
    REQUIRE(gpupool_malloc(pool, 4096, 0, &block) == GPUPOOL_SUCCESS);
    REQUIRE(gpupool_free(pool, block, 0) == GPUPOOL_SUCCESS);
  }
}

int main(int count, char** words) {
  REQUIRE(count >= 3);
  const long pairs = strtol(words[1], NULL, 10);
  const int is_recorded = strcmp(words[2], "recorded") == 0;
  gpupool_t* pool = new_pool(0);
  const gpupool_ptr_t other = new_block(pool, 8 << 20);
  if (strcmp(words[2], "tagged") == 0) OK(gpupool_tag_push("a tag"));
  if (strcmp(words[2], "slept") == 0) {
    OK(gpupool_sleep(pool, NULL, NULL));
    OK(gpupool_wake(pool, NULL, NULL));
  }
  REQUIRE(!is_recorded || count == 4);
  if (is_recorded) OK(gpupool_record_start(words[3], 0));
  run_pairs(pool, pairs);
  if (is_recorded) OK(gpupool_record_stop());
  OK(gpupool_free(pool, other, 0));
  OK(gpupool_destroy(pool));
  return finish();
}
