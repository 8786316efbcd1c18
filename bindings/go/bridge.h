/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One crossing an operation. A goroutine may be on another thread in its next call, where gpupool_last_error
 * knows nothing of a failure, so each function here also brings the details of its own failure back. Results
 * are structs by value: cgo then needs no memory of Go's heap, and stacks may move while a callback runs.
 */
#ifndef GPUPOOL_GO_BRIDGE_H
#define GPUPOOL_GO_BRIDGE_H

#ifdef GPUPOOL_GO_OWN_HEADER
#include "gpupool_header.h"
#else
#include <gpupool/gpupool.h>
#endif
#include <stdlib.h>
#include <string.h>

/* What went wrong, and a handle of Go's of the panic of a callback, or 0. Without a status it is the panic
 * alone. */
typedef struct {
  gpupool_error_t details;
  uintptr_t panic;
} bridge_failure;

typedef struct {
  uint64_t value;
  /* For bridge_drop; NULL: nothing. */
  bridge_failure* failed;
} bridge_result;

/* In callbacks.c: stands for every failure that there is no memory to tell of. */
extern bridge_failure bridge_no_memory;

/* In callbacks.c: the panic of a callback in the call that this thread is in. */
extern _Thread_local uintptr_t bridge_panic;

/* In callbacks.c: how many of bridge_malloc and bridge_malloc_aligned this thread is in. */
extern _Thread_local uint32_t bridge_mallocs;

static inline bridge_failure* bridge_fail(gpupool_status_t status) {
  bridge_failure* failed = (bridge_failure*)calloc(1, sizeof *failed);
  if (failed == NULL) return &bridge_no_memory;
  failed->details.struct_size = sizeof failed->details;
  (void)gpupool_last_error(&failed->details);
  failed->details.status = status;
  failed->panic = bridge_panic;
  bridge_panic = 0;
  return failed;
}

static inline void bridge_drop(bridge_failure* failed) {
  if (failed != &bridge_no_memory) free(failed);
}

static inline bridge_result bridge_done(gpupool_status_t status, uint64_t value) {
  const int is_good = status == GPUPOOL_SUCCESS && bridge_panic == 0;
  const bridge_result result = {value, is_good ? NULL : bridge_fail(status)};
  return result;
}

/* In callbacks.c. */
int32_t bridge_on_oom(void* user, gpupool_t* pool, uint64_t size, uint32_t attempt);
int32_t bridge_before_release(void* user, gpupool_t* pool, gpupool_ptr_t ptr);
int32_t bridge_after_map(void* user, gpupool_t* pool, gpupool_ptr_t ptr);
int32_t bridge_upstream_malloc(void* user, uint64_t size, gpupool_stream_t stream, gpupool_ptr_t* out_ptr);
void bridge_upstream_free(void* user, gpupool_ptr_t ptr, uint64_t size, gpupool_stream_t stream);
void bridge_on_log(void* user, int32_t level, const char* message);
size_t bridge_on_stack(void* user, char* text, size_t capacity);

/* ---- pools */

static inline bridge_result bridge_config_init(gpupool_config_t* config) {
  return bridge_done(gpupool_config_init(config, sizeof *config), 0);
}

static inline bridge_result bridge_create(gpupool_config_t config, const int32_t* peers, uintptr_t upstream) {
  gpupool_t* pool = NULL;
  config.peers = peers;
  if (upstream != 0) {
    config.upstream_malloc = bridge_upstream_malloc;
    config.upstream_free = bridge_upstream_free;
    config.upstream_user = (void*)upstream;
  }
  const gpupool_status_t status = gpupool_create(&config, &pool);
  return bridge_done(status, (uint64_t)(uintptr_t)pool);
}

static inline bridge_result bridge_create_child(uintptr_t parent) {
  gpupool_t* child = NULL;
  const gpupool_status_t status = gpupool_create_child((gpupool_t*)parent, &child);
  return bridge_done(status, (uint64_t)(uintptr_t)child);
}

static inline bridge_result bridge_default_pool(int32_t device) {
  gpupool_t* pool = NULL;
  const gpupool_status_t status = gpupool_default_pool(device, &pool);
  return bridge_done(status, (uint64_t)(uintptr_t)pool);
}

/* A number that names the pool, as Go keeps it: the library compares it, and refuses those of no pool. */
static inline gpupool_t* bridge_pool(uintptr_t pool) {
  return (gpupool_t*)pool;
}

static inline bridge_result bridge_destroy(uintptr_t pool) {
  return bridge_done(gpupool_destroy(bridge_pool(pool)), 0);
}

static inline bridge_result bridge_set_oom_handler(uintptr_t pool, gpupool_oom_fn_t fn, uintptr_t user) {
  return bridge_done(gpupool_set_oom_handler(bridge_pool(pool), fn, (void*)user), 0);
}

static inline bridge_result bridge_set_sleep_hooks(uintptr_t pool, gpupool_sleep_hook_fn_t before,
                                                   gpupool_sleep_hook_fn_t after, uintptr_t user) {
  return bridge_done(gpupool_set_sleep_hooks(bridge_pool(pool), before, after, (void*)user), 0);
}

static inline bridge_result bridge_set_log(gpupool_log_fn_t fn, int32_t level) {
  return bridge_done(gpupool_set_log(fn, NULL, level), 0);
}

/* ---- memory */

static inline bridge_result bridge_malloc(uintptr_t pool, uint64_t size, uintptr_t stream) {
  gpupool_ptr_t ptr = 0;
  ++bridge_mallocs;
  const gpupool_status_t status = gpupool_malloc(bridge_pool(pool), size, stream, &ptr);
  --bridge_mallocs;
  return bridge_done(status, ptr);
}

static inline bridge_result bridge_malloc_aligned(uintptr_t pool, uint64_t size, uint64_t alignment,
                                                  uintptr_t stream) {
  gpupool_ptr_t ptr = 0;
  ++bridge_mallocs;
  const gpupool_status_t status = gpupool_malloc_aligned(bridge_pool(pool), size, alignment, stream, &ptr);
  --bridge_mallocs;
  return bridge_done(status, ptr);
}

static inline bridge_result bridge_free(uintptr_t pool, uint64_t ptr, uintptr_t stream) {
  return bridge_done(gpupool_free(bridge_pool(pool), ptr, stream), 0);
}

static inline bridge_result bridge_record_stream(uintptr_t pool, uint64_t ptr, uintptr_t stream) {
  return bridge_done(gpupool_record_stream(bridge_pool(pool), ptr, stream), 0);
}

static inline bridge_result bridge_block_info(uintptr_t pool, uint64_t ptr, void* block, size_t size) {
  return bridge_done(gpupool_block_info(bridge_pool(pool), ptr, (gpupool_block_t*)block, size), 0);
}

static inline bridge_result bridge_release_stream(uintptr_t pool, uintptr_t stream) {
  return bridge_done(gpupool_release_stream(bridge_pool(pool), stream), 0);
}

static inline bridge_result bridge_park_stream(uintptr_t pool, uintptr_t stream) {
  return bridge_done(gpupool_park_stream(bridge_pool(pool), stream), 0);
}

static inline bridge_result bridge_capture_id(uintptr_t pool, uintptr_t stream) {
  uint64_t capture = 0;
  const gpupool_status_t status = gpupool_capture_id(bridge_pool(pool), stream, &capture);
  return bridge_done(status, capture);
}

static inline bridge_result bridge_release_capture(uintptr_t pool, uint64_t capture) {
  return bridge_done(gpupool_release_capture(bridge_pool(pool), capture), 0);
}

static inline bridge_result bridge_announce_capture(uintptr_t pool, int32_t begins) {
  return bridge_done(gpupool_announce_capture(bridge_pool(pool), begins), 0);
}

static inline bridge_result bridge_enable_peer(uintptr_t pool, int32_t peer) {
  return bridge_done(gpupool_enable_peer(bridge_pool(pool), peer), 0);
}

static inline bridge_result bridge_synchronize(uintptr_t pool) {
  return bridge_done(gpupool_synchronize(bridge_pool(pool)), 0);
}

/* ---- keeping memory, and giving it back */

static inline bridge_result bridge_empty(uintptr_t pool) {
  uint64_t released = 0;
  const gpupool_status_t status = gpupool_empty(bridge_pool(pool), &released);
  return bridge_done(status, released);
}

static inline bridge_result bridge_trim(uintptr_t pool, uint64_t target) {
  uint64_t released = 0;
  const gpupool_status_t status = gpupool_trim(bridge_pool(pool), target, &released);
  return bridge_done(status, released);
}

static inline bridge_result bridge_reserve(uintptr_t pool, uint64_t target, uintptr_t stream) {
  return bridge_done(gpupool_reserve(bridge_pool(pool), target, stream), 0);
}

static inline bridge_result bridge_share_request(uintptr_t pool, uint64_t bytes, uint64_t timeout_ns) {
  return bridge_done(gpupool_share_request(bridge_pool(pool), bytes, timeout_ns), 0);
}

static inline bridge_result bridge_set_fraction(uintptr_t pool, double fraction) {
  return bridge_done(gpupool_set_fraction(bridge_pool(pool), fraction), 0);
}

static inline bridge_result bridge_set_limit(uintptr_t pool, uint64_t limit) {
  return bridge_done(gpupool_set_limit(bridge_pool(pool), limit), 0);
}

/* ---- sleep */

static inline gpupool_sleep_options_t bridge_sleep_options(int32_t mode, uint32_t flags, uint32_t fill,
                                                           uint64_t timeout_ns, uint64_t target) {
  gpupool_sleep_options_t options = {0};
  options.struct_size = sizeof options;
  options.mode = mode;
  options.flags = flags;
  options.fill = fill;
  options.timeout_ns = timeout_ns;
  options.target_bytes = target;
  return options;
}

static inline bridge_result bridge_sleep(uintptr_t pool, gpupool_sleep_options_t options, void* result) {
  return bridge_done(gpupool_sleep(bridge_pool(pool), &options, (gpupool_sleep_result_t*)result), 0);
}

static inline bridge_result bridge_wake(uintptr_t pool, gpupool_sleep_options_t options, void* result) {
  return bridge_done(gpupool_wake(bridge_pool(pool), &options, (gpupool_sleep_result_t*)result), 0);
}

static inline bridge_result bridge_allow_sleep(uintptr_t pool, gpupool_sleep_options_t options) {
  return bridge_done(gpupool_allow_sleep(bridge_pool(pool), &options), 0);
}

static inline bridge_result bridge_sleep_block(uintptr_t pool, uint64_t ptr, gpupool_sleep_options_t options,
                                               void* result) {
  return bridge_done(gpupool_sleep_block(bridge_pool(pool), ptr, &options, (gpupool_sleep_result_t*)result),
                     0);
}

static inline bridge_result bridge_wake_block(uintptr_t pool, uint64_t ptr, gpupool_sleep_options_t options,
                                              void* result) {
  return bridge_done(gpupool_wake_block(bridge_pool(pool), ptr, &options, (gpupool_sleep_result_t*)result),
                     0);
}

static inline bridge_result bridge_sleep_tag(const char* tag, gpupool_sleep_options_t options, void* result) {
  return bridge_done(gpupool_sleep_tag(tag, &options, (gpupool_sleep_result_t*)result), 0);
}

static inline bridge_result bridge_wake_tag(const char* tag, gpupool_sleep_options_t options, void* result) {
  return bridge_done(gpupool_wake_tag(tag, &options, (gpupool_sleep_result_t*)result), 0);
}

static inline bridge_result bridge_sleep_state(uintptr_t pool) {
  gpupool_sleep_state_t state = GPUPOOL_SLEEP_STATE_AWAKE;
  const gpupool_status_t status = gpupool_sleep_state(bridge_pool(pool), &state);
  return bridge_done(status, (uint64_t)state);
}

static inline bridge_result bridge_export(uintptr_t pool, uint64_t ptr, char* handle) {
  return bridge_done(gpupool_export(bridge_pool(pool), ptr, handle, GPUPOOL_EXPORT_BYTES), 0);
}

static inline bridge_result bridge_import(uintptr_t pool, const char* handle, uint64_t* size) {
  gpupool_ptr_t ptr = 0;
  const gpupool_status_t status = gpupool_import(bridge_pool(pool), handle, &ptr, size);
  return bridge_done(status, ptr);
}

static inline bridge_result bridge_import_close(uintptr_t pool, uint64_t ptr) {
  return bridge_done(gpupool_import_close(bridge_pool(pool), ptr), 0);
}

static inline bridge_result bridge_set_name(uintptr_t pool, const char* name) {
  return bridge_done(gpupool_set_name(bridge_pool(pool), name), 0);
}

static inline bridge_result bridge_name(uintptr_t pool, char* text, size_t capacity) {
  size_t length = 0;
  const gpupool_status_t status = gpupool_name(bridge_pool(pool), text, capacity, &length);
  return bridge_done(status, length);
}

static inline bridge_result bridge_set_keep(uintptr_t pool, uint64_t ptr, int32_t keep) {
  return bridge_done(gpupool_set_keep(bridge_pool(pool), ptr, keep), 0);
}

static inline bridge_result bridge_prepare_backup(uintptr_t pool, uint64_t bytes) {
  return bridge_done(gpupool_prepare_backup(bridge_pool(pool), bytes), 0);
}

static inline bridge_result bridge_read_backup(uintptr_t pool, uint64_t ptr, void* to, uint64_t size) {
  return bridge_done(gpupool_read_backup(bridge_pool(pool), ptr, to, size), 0);
}

/* ---- watching */

static inline bridge_result bridge_stats(uintptr_t pool, void* stats) {
  return bridge_done(gpupool_stats(bridge_pool(pool), (gpupool_stats_t*)stats), 0);
}

static inline bridge_result bridge_reset_peaks(uintptr_t pool) {
  return bridge_done(gpupool_reset_peaks(bridge_pool(pool)), 0);
}

typedef struct {
  bridge_result result;
  size_t segments;
  size_t blocks;
} bridge_counts;

static inline bridge_counts bridge_snapshot(uintptr_t pool, void* segments, size_t segment_size,
                                            size_t segment_capacity, void* blocks, size_t block_size,
                                            size_t block_capacity) {
  bridge_counts counts = {{0, NULL}, 0, 0};
  const gpupool_status_t status = gpupool_snapshot(
      bridge_pool(pool), (gpupool_segment_t*)segments, segment_size, segment_capacity, &counts.segments,
      (gpupool_block_t*)blocks, block_size, block_capacity, &counts.blocks);
  counts.result = bridge_done(status, 0);
  return counts;
}

static inline bridge_result bridge_report(uintptr_t pool, char* text, size_t capacity) {
  size_t length = 0;
  const gpupool_status_t status = gpupool_report(bridge_pool(pool), text, capacity, &length);
  return bridge_done(status, length);
}

/* holders: as many gpupool_holder_t as the capacity says, which bridge_holder_at reads. */
static inline bridge_result bridge_holders(uintptr_t pool, gpupool_holder_t* holders, size_t capacity) {
  size_t count = 0;
  const gpupool_status_t status =
      gpupool_holders(bridge_pool(pool), holders, sizeof(gpupool_holder_t), capacity, &count);
  return bridge_done(status, count);
}

static inline gpupool_holder_t* bridge_holder_at(gpupool_holder_t* holders, size_t index) {
  return holders + index;
}

static inline bridge_result bridge_tag_push(const char* tag) {
  return bridge_done(gpupool_tag_push(tag), 0);
}

static inline bridge_result bridge_tag_pop(void) {
  return bridge_done(gpupool_tag_pop(), 0);
}

static inline bridge_result bridge_set_sampling(uint64_t bytes) {
  return bridge_done(gpupool_set_sampling(bytes), 0);
}

static inline void bridge_name_frames(void) {
  (void)gpupool_set_stack_fn(bridge_on_stack, NULL);
}

static inline bridge_result bridge_record_start(const char* path, uint32_t flags) {
  return bridge_done(gpupool_record_start(path, flags), 0);
}

static inline bridge_result bridge_record_stop(void) {
  return bridge_done(gpupool_record_stop(), 0);
}

static inline bridge_result bridge_mark(const char* text) {
  return bridge_done(gpupool_mark(text), 0);
}

static inline bridge_result bridge_set_debug(const char* modes) {
  return bridge_done(gpupool_set_debug(modes), 0);
}

static inline bridge_result bridge_check(uintptr_t pool, char* text, size_t capacity) {
  uint64_t count = 0;
  const gpupool_status_t status = gpupool_check(bridge_pool(pool), &count, text, capacity);
  return bridge_done(status, count);
}

static inline bridge_result bridge_protect(uintptr_t pool, uint64_t ptr, int32_t access) {
  return bridge_done(gpupool_protect(bridge_pool(pool), ptr, (gpupool_access_t)access), 0);
}

static inline bridge_result bridge_why(uint64_t address, char* text, size_t capacity) {
  size_t length = 0;
  const gpupool_status_t status = gpupool_why(address, text, capacity, &length);
  return bridge_done(status, length);
}

static inline bridge_result bridge_validate(uintptr_t pool) {
  return bridge_done(gpupool_validate(bridge_pool(pool)), 0);
}

/* ---- streams and data */

static inline bridge_result bridge_stream_create(uintptr_t pool) {
  gpupool_stream_t stream = 0;
  const gpupool_status_t status = gpupool_stream_create(bridge_pool(pool), &stream);
  return bridge_done(status, stream);
}

static inline bridge_result bridge_stream_destroy(uintptr_t pool, uintptr_t stream) {
  return bridge_done(gpupool_stream_destroy(bridge_pool(pool), stream), 0);
}

static inline bridge_result bridge_stream_synchronize(uintptr_t pool, uintptr_t stream) {
  return bridge_done(gpupool_stream_synchronize(bridge_pool(pool), stream), 0);
}

static inline bridge_result bridge_copy(uintptr_t pool, uint64_t destination, uint64_t source, uint64_t size,
                                        uintptr_t stream) {
  return bridge_done(gpupool_copy(bridge_pool(pool), destination, source, size, stream), 0);
}

/* Between the device and memory of Go, which stays where it is during this call only: hence the wait. */
static inline bridge_result bridge_copy_host(uintptr_t pool, uint64_t block, void* host, uint64_t size,
                                             int to_host, uintptr_t stream) {
  const uint64_t address = (uint64_t)(uintptr_t)host;
  gpupool_status_t status =
      gpupool_copy(bridge_pool(pool), to_host ? address : block, to_host ? block : address, size, stream);
  if (status == GPUPOOL_SUCCESS) status = gpupool_stream_synchronize(bridge_pool(pool), stream);
  return bridge_done(status, 0);
}

static inline bridge_result bridge_fill(uintptr_t pool, uint64_t destination, uint32_t value, uint64_t size,
                                        uintptr_t stream) {
  return bridge_done(gpupool_fill(bridge_pool(pool), destination, value, size, stream), 0);
}

/* ---- sizes and devices in words */

typedef struct {
  bridge_result bytes;
  double share;
} bridge_size;

static inline bridge_size bridge_parse_size(const char* text) {
  bridge_size size = {{0, NULL}, 0};
  uint64_t bytes = 0;
  const gpupool_status_t status = gpupool_parse_size(text, &bytes, &size.share);
  size.bytes = bridge_done(status, bytes);
  return size;
}

typedef struct {
  bridge_result number;
  gpupool_backend_t backend;
} bridge_device;

static inline bridge_device bridge_parse_device(const char* text) {
  bridge_device device = {{0, NULL}, GPUPOOL_BACKEND_AUTO};
  int32_t number = 0;
  const gpupool_status_t status = gpupool_parse_device(text, &device.backend, &number);
  device.number = bridge_done(status, (uint64_t)number);
  return device;
}

/* ---- devices */

static inline bridge_result bridge_device_count(int32_t backend) {
  int32_t count = 0;
  const gpupool_status_t status = gpupool_device_count((gpupool_backend_t)backend, &count);
  return bridge_done(status, (uint64_t)count);
}

static inline bridge_result bridge_device_info(int32_t backend, int32_t device, gpupool_device_info_t* info) {
  return bridge_done(gpupool_device_info((gpupool_backend_t)backend, device, info), 0);
}

/* ---- groups of processes, from outside */

static inline bridge_result bridge_share_info(const char* share, int32_t backend, int32_t device,
                                              gpupool_share_t* info, gpupool_share_member_t* members,
                                              size_t capacity) {
  size_t count = 0;
  const gpupool_status_t status = gpupool_share_info(share, (gpupool_backend_t)backend, device, info, members,
                                                     sizeof *members, capacity, &count);
  return bridge_done(status, count);
}

static inline bridge_result bridge_share_set(const char* share, int32_t backend, int32_t device, int32_t what,
                                             uint32_t member, int64_t value) {
  return bridge_done(gpupool_share_set(share, (gpupool_backend_t)backend, device, what, member, value), 0);
}

static inline bridge_result bridge_share_repair(const char* share, int32_t backend, int32_t device) {
  int64_t off = 0;
  const gpupool_status_t status = gpupool_share_repair(share, (gpupool_backend_t)backend, device, &off);
  return bridge_done(status, (uint64_t)off);
}

/* ---- the simulated device */

static inline bridge_result bridge_sim_configure(int32_t device, gpupool_sim_config_t config) {
  config.struct_size = sizeof config;
  return bridge_done(gpupool_sim_configure(device, &config), 0);
}

static inline bridge_result bridge_sim_script(int32_t device, const char* script) {
  return bridge_done(gpupool_sim_script(device, script), 0);
}

static inline bridge_result bridge_sim_work(int32_t device, uintptr_t stream, uint64_t ptr, uint64_t size,
                                            uint64_t nanoseconds) {
  return bridge_done(gpupool_sim_work(device, stream, ptr, size, nanoseconds), 0);
}

static inline bridge_result bridge_sim_advance(int32_t device, uint64_t nanoseconds) {
  return bridge_done(gpupool_sim_advance(device, nanoseconds), 0);
}

static inline bridge_result bridge_sim_capture(int32_t device, uintptr_t stream, int32_t begin) {
  return bridge_done(gpupool_sim_capture(device, stream, begin), 0);
}

static inline bridge_result bridge_sim_launch(int32_t device, uint64_t capture, uintptr_t stream) {
  return bridge_done(gpupool_sim_launch(device, capture, stream), 0);
}

static inline bridge_result bridge_sim_hold(int32_t device, uint64_t ptr) {
  return bridge_done(gpupool_sim_hold(device, ptr), 0);
}

static inline bridge_result bridge_sim_faults(int32_t device, char* text, size_t capacity) {
  uint64_t count = 0;
  const gpupool_status_t status = gpupool_sim_faults(device, &count, text, capacity);
  return bridge_done(status, count);
}

#endif
