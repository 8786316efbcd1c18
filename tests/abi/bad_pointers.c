// SPDX-License-Identifier: Apache-2.0
// Pointers that are not live blocks of the pool: each is refused, and changes nothing.
#include "support/check.h"

#define UNKNOWN GPUPOOL_ERROR_UNKNOWN_POINTER

static void refused_everywhere(gpupool_t* pool, gpupool_ptr_t pointer) {
  gpupool_block_t block;
  FAILS(UNKNOWN, gpupool_free(pool, pointer, 0));
  FAILS(UNKNOWN, gpupool_free(pool, pointer, (gpupool_stream_t)GPUPOOL_STREAM_UNKNOWN));
  FAILS(UNKNOWN, gpupool_record_stream(pool, pointer, 1));
  FAILS(UNKNOWN, gpupool_block_info(pool, pointer, &block, sizeof block));
}

// A pointer into a block is refused by all but block_info, which finds the block.
static void inside_is_refused(gpupool_t* pool, gpupool_ptr_t block, uint64_t offset) {
  FAILS(UNKNOWN, gpupool_free(pool, block + offset, 0));
  FAILS(UNKNOWN, gpupool_record_stream(pool, block + offset, 1));
  gpupool_block_t found;
  OK(gpupool_block_info(pool, block + offset, &found, sizeof found));
  CHECK(found.address == block);
}

static void test_size(gpupool_t* pool, gpupool_t* other, uint64_t size) {
  const gpupool_ptr_t block = new_block(pool, size);
  const gpupool_ptr_t freed = new_block(pool, size);
  OK(gpupool_free(pool, freed, 0));
  const gpupool_stats_t before = stats_of(pool);

  refused_everywhere(pool, freed);
  refused_everywhere(other, block);
  inside_is_refused(pool, block, 1);
  inside_is_refused(pool, block, size / 2);
  inside_is_refused(pool, block, size - 1);

  const gpupool_stats_t after = stats_of(pool);
  CHECK(memcmp(&before.all.allocated_bytes, &after.all.allocated_bytes, sizeof before.all.allocated_bytes) ==
        0);
  CHECK(memcmp(&before.all.active_bytes, &after.all.active_bytes, sizeof before.all.active_bytes) == 0);
  CHECK(before.all.reserved_bytes.current == after.all.reserved_bytes.current);

  // The block is as good as before: it can still be freed, once.
  OK(gpupool_free(pool, block, 0));
  refused_everywhere(pool, block);
}

int main(void) {
  gpupool_t* pool = new_pool(0);
  gpupool_t* other = new_pool(0);

  // Before the pool has any memory, and with memory.
  int on_stack = 0;
  const gpupool_ptr_t foreign[] = {1,
                                   511,
                                   512,
                                   (gpupool_ptr_t)(uintptr_t)&on_stack,
                                   UINT64_C(1) << 47,
                                   UINT64_C(1) << 63,
                                   UINT64_MAX - 511,
                                   UINT64_MAX};
  const size_t count = sizeof foreign / sizeof foreign[0];
  for (size_t i = 0; i < count; ++i) refused_everywhere(pool, foreign[i]);
  const gpupool_ptr_t keep = new_block(pool, 512);
  for (size_t i = 0; i < count; ++i) refused_everywhere(pool, foreign[i]);

  const uint64_t sizes[] = {512, 5000, UINT64_C(1) << 20, UINT64_C(3) << 20, UINT64_C(100) << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) test_size(pool, other, sizes[i]);

  // Pointer 0 is the block of size 0.
  OK(gpupool_free(pool, 0, 0));
  OK(gpupool_record_stream(pool, 0, 1));
  gpupool_block_t block;
  FAILS(UNKNOWN, gpupool_block_info(pool, 0, &block, sizeof block));

  OK(gpupool_free(pool, keep, 0));
  OK(gpupool_validate(pool));
  OK(gpupool_validate(other));
  OK(gpupool_empty(pool, NULL));
  CHECK(stats_of(pool).all.reserved_bytes.current == 0);
  OK(gpupool_destroy(pool));
  OK(gpupool_destroy(other));
  return finish();
}
