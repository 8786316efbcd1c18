/* SPDX-License-Identifier: Apache-2.0 */
/* Pools, blocks and streams by their owners: see glue.h. Counts that go up need no memory order; those that
 * go down do, so that the last one sees what the others did. */
#include <gpupool/gpupool.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "glue.h"

static void increase(uint32_t* count) {
  __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

/* Returns 1 to the last one. */
static int decrease(uint32_t* count) {
  return __atomic_sub_fetch(count, 1, __ATOMIC_ACQ_REL) == 0;
}

/* Counts one more, unless none is left. */
static int increase_if_any(uint32_t* count) {
  uint32_t now = __atomic_load_n(count, __ATOMIC_RELAXED);
  do {
    if (now == 0) return 0;
  } while (!__atomic_compare_exchange_n(count, &now, now + 1, 1, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  return 1;
}

gpupool_py_pool_t* gpupool_py_pool_new(gpupool_t* handle, uint32_t is_default) {
  gpupool_py_pool_t* pool = malloc(sizeof *pool);
  if (pool == NULL) return NULL;
  *pool = (gpupool_py_pool_t){
      .handle = handle, .owners = 1, .references = 2, .is_default = is_default, .process = getpid()};
  return pool;
}

void gpupool_py_pool_forget(gpupool_py_pool_t* pool) {
  if (decrease(&pool->references)) free(pool);
}

static void add_owner(gpupool_py_pool_t* pool) {
  increase(&pool->owners);
  increase(&pool->references);
}

void gpupool_py_pool_drop(gpupool_py_pool_t* pool) {
  if (decrease(&pool->owners)) {
    if (!pool->is_default) (void)gpupool_destroy(pool->handle);
    __atomic_store_n(&pool->is_destroyed, 1, __ATOMIC_RELEASE);
  }
  gpupool_py_pool_forget(pool);
}

int32_t gpupool_py_free_late(gpupool_py_pool_t* pool, gpupool_ptr_t ptr, gpupool_stream_t stream) {
  if (increase_if_any(&pool->owners)) {
    increase(&pool->references);
    const gpupool_status_t status = gpupool_free(pool->handle, ptr, stream);
    gpupool_py_pool_drop(pool);
    return status;
  }
  while (!__atomic_load_n(&pool->is_destroyed, __ATOMIC_ACQUIRE) && getpid() == pool->process) sched_yield();
  return gpupool_free(pool->handle, ptr, stream);
}

gpupool_py_block_t* gpupool_py_block_new(gpupool_py_pool_t* pool, gpupool_ptr_t address,
                                         gpupool_stream_t stream) {
  gpupool_py_block_t* block = malloc(sizeof *block);
  if (block == NULL) return NULL;
  add_owner(pool);
  *block = (gpupool_py_block_t){
      .pool = pool, .address = address, .stream = stream, .holders = 1, .references = 2, .is_owned = 1};
  return block;
}

static void drop_reference(gpupool_py_block_t* block) {
  if (!decrease(&block->references)) return;
  gpupool_py_pool_drop(block->pool);
  free(block);
}

/* What to free on. The block's stream may have been released since, and its number be another stream's, or
 * nobody's. Nobody destroys the default streams, 0 to 2. */
static gpupool_stream_t stream_now(const gpupool_py_block_t* block) {
  gpupool_block_t info;
  if (block->stream <= 2 || gpupool_block_info(block->pool->handle, block->address, &info, sizeof info) != 0)
    return block->stream;
  return info.stream;
}

static int32_t drop_holder(gpupool_py_block_t* block) {
  int32_t status = GPUPOOL_SUCCESS;
  if (decrease(&block->holders))
    status = gpupool_free(block->pool->handle, block->address, stream_now(block));
  drop_reference(block);
  return status;
}

int32_t gpupool_py_block_free(gpupool_py_block_t* block) {
  if (__atomic_exchange_n(&block->is_owned, 0, __ATOMIC_ACQ_REL) == 0) return GPUPOOL_SUCCESS;
  return drop_holder(block);
}

int32_t gpupool_py_block_hold(gpupool_py_block_t* block) {
  if (!increase_if_any(&block->holders)) return 0;
  increase(&block->references);
  return 1;
}

void gpupool_py_block_release(gpupool_py_block_t* block) {
  (void)drop_holder(block);
}

void gpupool_py_block_forget(gpupool_py_block_t* block) {
  (void)gpupool_py_block_free(block);
  drop_reference(block);
}

gpupool_py_stream_t* gpupool_py_stream_new(gpupool_py_pool_t* pool, gpupool_stream_t number) {
  gpupool_py_stream_t* stream = malloc(sizeof *stream);
  if (stream == NULL) return NULL;
  add_owner(pool);
  *stream = (gpupool_py_stream_t){.pool = pool, .number = number, .users = 1, .is_open = 1};
  return stream;
}

static int32_t end_use(gpupool_py_stream_t* stream) {
  if (!decrease(&stream->users)) return GPUPOOL_SUCCESS;
  return gpupool_stream_destroy(stream->pool->handle, stream->number);
}

int32_t gpupool_py_stream_close(gpupool_py_stream_t* stream) {
  if (__atomic_exchange_n(&stream->is_open, 0, __ATOMIC_ACQ_REL) == 0) return GPUPOOL_SUCCESS;
  return end_use(stream);
}

int32_t gpupool_py_stream_hold(gpupool_py_stream_t* stream) {
  return increase_if_any(&stream->users);
}

void gpupool_py_stream_release(gpupool_py_stream_t* stream) {
  (void)end_use(stream);
}

void gpupool_py_stream_forget(gpupool_py_stream_t* stream) {
  (void)gpupool_py_stream_close(stream);
  gpupool_py_pool_drop(stream->pool);
  free(stream);
}
