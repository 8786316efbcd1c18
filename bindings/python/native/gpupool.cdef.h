/* SPDX-License-Identifier: Apache-2.0 */
/* Written by tools/apigen.py for cffi. */
#define GPUPOOL_VERSION_MAJOR 0
#define GPUPOOL_VERSION_MINOR 2
#define GPUPOOL_VERSION_PATCH 0
#define GPUPOOL_VERSION 200
#define GPUPOOL_STREAM_UNKNOWN 0xffffffffffffffff
#define GPUPOOL_EXPORT_BYTES 192
typedef struct gpupool_t gpupool_t;
typedef uint64_t gpupool_ptr_t;
typedef uintptr_t gpupool_stream_t;
typedef enum {
  GPUPOOL_SUCCESS = 0,
  GPUPOOL_ERROR_INVALID_ARGUMENT = 1,
  GPUPOOL_ERROR_OUT_OF_MEMORY = 2,
  GPUPOOL_ERROR_HOST_OUT_OF_MEMORY = 3,
  GPUPOOL_ERROR_OVER_LIMIT = 4,
  GPUPOOL_ERROR_UNKNOWN_POINTER = 5,
  GPUPOOL_ERROR_UNAVAILABLE = 6,
  GPUPOOL_ERROR_UNSUPPORTED = 7,
  GPUPOOL_ERROR_DRIVER = 8,
  GPUPOOL_ERROR_SHUTTING_DOWN = 9,
  GPUPOOL_ERROR_FORKED = 10,
  GPUPOOL_ERROR_INTERNAL = 11,
  GPUPOOL_ERROR_ASLEEP = 12,
  GPUPOOL_ERROR_INTERRUPTED = 13,
  GPUPOOL_STATUS_FORCE32 = 2147483647,
} gpupool_status_t;
typedef enum {
  GPUPOOL_BACKEND_AUTO = 0,
  GPUPOOL_BACKEND_CUDA = 1,
  GPUPOOL_BACKEND_SIM = 2,
  GPUPOOL_BACKEND_HOST = 3,
  GPUPOOL_BACKEND_FORCE32 = 2147483647,
} gpupool_backend_t;
typedef enum {
  GPUPOOL_MODE_AUTO = 0,
  GPUPOOL_MODE_VMM = 1,
  GPUPOOL_MODE_DRIVER = 2,
  GPUPOOL_MODE_UPSTREAM = 3,
  GPUPOOL_MODE_FORCE32 = 2147483647,
} gpupool_mode_t;
typedef enum {
  GPUPOOL_KIND_DEVICE = 0,
  GPUPOOL_KIND_PINNED = 1,
  GPUPOOL_KIND_MANAGED = 2,
  GPUPOOL_KIND_FORCE32 = 2147483647,
} gpupool_kind_t;
typedef enum {
  GPUPOOL_FLAG_CAPTURE_AWARE = 1,
  GPUPOOL_FLAG_FORCE32 = 2147483647,
} gpupool_flag_t;
typedef enum {
  GPUPOOL_RECORD_NATIVE_STACKS = 1,
  GPUPOOL_RECORD_LANGUAGE_STACKS = 2,
  GPUPOOL_RECORD_FORCE32 = 2147483647,
} gpupool_record_flag_t;
typedef enum {
  GPUPOOL_FEATURE_SIM = 1,
  GPUPOOL_FEATURE_CUDA = 2,
  GPUPOOL_FEATURE_HOST = 4,
  GPUPOOL_FEATURE_FORCE32 = 2147483647,
} gpupool_feature_t;
typedef enum {
  GPUPOOL_CAPABILITY_VMM = 1,
  GPUPOOL_CAPABILITY_RDMA = 2,
  GPUPOOL_CAPABILITY_MANAGED = 4,
  GPUPOOL_CAPABILITY_INTEGRATED = 8,
  GPUPOOL_CAPABILITY_FORCE32 = 2147483647,
} gpupool_capability_t;
typedef enum {
  GPUPOOL_BLOCK_LIVE = 1,
  GPUPOOL_BLOCK_PENDING = 2,
  GPUPOOL_BLOCK_CACHED = 3,
  GPUPOOL_BLOCK_ASLEEP = 4,
  GPUPOOL_BLOCK_FORCE32 = 2147483647,
} gpupool_block_state_t;
typedef enum {
  GPUPOOL_SLEEP_MODE_SAVE = 0,
  GPUPOOL_SLEEP_MODE_DROP = 1,
  GPUPOOL_SLEEP_MODE_FORCE32 = 2147483647,
} gpupool_sleep_mode_t;
typedef enum {
  GPUPOOL_SLEEP_FLAG_SYNC_CONTEXT = 1,
  GPUPOOL_SLEEP_FLAG_HOLD_MALLOCS = 2,
  GPUPOOL_SLEEP_FLAG_RETAIN_BACKUP = 4,
  GPUPOOL_SLEEP_FLAG_FILL = 8,
  GPUPOOL_SLEEP_FLAG_FORCE32 = 2147483647,
} gpupool_sleep_flag_t;
typedef enum {
  GPUPOOL_ACCESS_WRITE = 0,
  GPUPOOL_ACCESS_READ = 1,
  GPUPOOL_ACCESS_NONE = 2,
  GPUPOOL_ACCESS_FORCE32 = 2147483647,
} gpupool_access_t;
typedef enum {
  GPUPOOL_SHARE_STATE_OFF = 0,
  GPUPOOL_SHARE_STATE_ALONE = 1,
  GPUPOOL_SHARE_STATE_SHARED = 2,
  GPUPOOL_SHARE_STATE_FORCE32 = 2147483647,
} gpupool_share_state_t;
typedef enum {
  GPUPOOL_SHARE_MEMBER_STATE_LIVE = 1,
  GPUPOOL_SHARE_MEMBER_STATE_LIMBO = 2,
  GPUPOOL_SHARE_MEMBER_STATE_FORCE32 = 2147483647,
} gpupool_share_member_state_t;
typedef enum {
  GPUPOOL_SHARE_FIGURE_LIMIT = 1,
  GPUPOOL_SHARE_FIGURE_MEMBER_LIMIT = 2,
  GPUPOOL_SHARE_FIGURE_MEMBER_GUARANTEE = 3,
  GPUPOOL_SHARE_FIGURE_MEMBER_PRIORITY = 4,
  GPUPOOL_SHARE_FIGURE_FORCE32 = 2147483647,
} gpupool_share_figure_t;
typedef enum {
  GPUPOOL_SLEEP_STATE_AWAKE = 0,
  GPUPOOL_SLEEP_STATE_FALLING_ASLEEP = 1,
  GPUPOOL_SLEEP_STATE_ASLEEP = 2,
  GPUPOOL_SLEEP_STATE_WAKING = 3,
  GPUPOOL_SLEEP_STATE_FORCE32 = 2147483647,
} gpupool_sleep_state_t;
typedef enum {
  GPUPOOL_WAIT_WAKE = 1,
  GPUPOOL_WAIT_TURN = 2,
  GPUPOOL_WAIT_MEMORY = 3,
  GPUPOOL_WAIT_GPU = 4,
  GPUPOOL_WAIT_FORCE32 = 2147483647,
} gpupool_wait_t;
typedef enum {
  GPUPOOL_LOG_OFF = 0,
  GPUPOOL_LOG_ERROR = 1,
  GPUPOOL_LOG_WARNING = 2,
  GPUPOOL_LOG_INFO = 3,
  GPUPOOL_LOG_DEBUG = 4,
  GPUPOOL_LOG_FORCE32 = 2147483647,
} gpupool_log_level_t;
typedef void (*gpupool_log_fn_t)(void* user, int32_t level, const char* message);
typedef int32_t (*gpupool_oom_fn_t)(void* user, gpupool_t* pool, uint64_t size, uint32_t attempt);
typedef int32_t (*gpupool_sleep_hook_fn_t)(void* user, gpupool_t* pool, gpupool_ptr_t ptr);
typedef int32_t (*gpupool_upstream_malloc_fn_t)(void* user, uint64_t size, gpupool_stream_t stream, gpupool_ptr_t* out_ptr);
typedef void (*gpupool_upstream_free_fn_t)(void* user, gpupool_ptr_t ptr, uint64_t size, gpupool_stream_t stream);
typedef size_t (*gpupool_stack_fn_t)(void* user, char* text, size_t capacity);
typedef int32_t (*gpupool_interrupt_fn_t)(void* user, int32_t wait);
typedef struct gpupool_error_t {
  uint32_t struct_size;
  int32_t status;
  int32_t driver_code;
  uint32_t reserved0;
  char message[1024];
} gpupool_error_t;
typedef struct gpupool_config_t {
  uint32_t struct_size;
  uint32_t flags;
  int32_t device;
  int32_t backend;
  int32_t mode;
  int32_t kind;
  double fraction;
  uint64_t limit_bytes;
  double slack;
  uint64_t max_chunk_bytes;
  const int32_t* peers;
  gpupool_upstream_malloc_fn_t upstream_malloc;
  gpupool_upstream_free_fn_t upstream_free;
  void* upstream_user;
  uint32_t peer_count;
  uint32_t reserved0;
  uint64_t reserved[4];
  const char* share;
  uint64_t guaranteed_bytes;
  uint64_t share_wait_ns;
  int32_t priority;
  uint32_t reserved1;
  double idle_seconds;
} gpupool_config_t;
typedef struct gpupool_device_info_t {
  uint32_t struct_size;
  int32_t backend;
  int32_t device;
  uint32_t capabilities;
  uint64_t total_bytes;
  uint64_t free_bytes;
  uint64_t granularity_bytes;
  int32_t driver_version;
  int32_t compute_capability;
  char name[128];
} gpupool_device_info_t;
typedef struct gpupool_stat_t {
  uint64_t current;
  uint64_t peak;
  uint64_t total_allocated;
  uint64_t total_freed;
} gpupool_stat_t;
typedef struct gpupool_stat_group_t {
  gpupool_stat_t requested_bytes;
  gpupool_stat_t allocated_bytes;
  gpupool_stat_t active_bytes;
  gpupool_stat_t reserved_bytes;
  gpupool_stat_t allocated_blocks;
  gpupool_stat_t active_blocks;
  gpupool_stat_t chunks;
} gpupool_stat_group_t;
typedef struct gpupool_call_stat_t {
  uint64_t count;
  uint64_t nanoseconds;
} gpupool_call_stat_t;
typedef struct gpupool_driver_stats_t {
  gpupool_call_stat_t create;
  gpupool_call_stat_t release;
  gpupool_call_stat_t map;
  gpupool_call_stat_t set_access;
  gpupool_call_stat_t unmap;
  gpupool_call_stat_t address;
  gpupool_call_stat_t malloc;
  gpupool_call_stat_t free;
  gpupool_call_stat_t event_record;
  gpupool_call_stat_t query;
  gpupool_call_stat_t stream_wait;
  gpupool_call_stat_t host_wait;
} gpupool_driver_stats_t;
typedef struct gpupool_stats_t {
  uint32_t struct_size;
  int32_t device;
  uint64_t limit_bytes;
  uint64_t cached_bytes;
  uint64_t releasable_bytes;
  uint64_t slack_bytes;
  gpupool_stat_group_t all;
  gpupool_stat_group_t large;
  gpupool_stat_group_t small;
  gpupool_driver_stats_t driver;
  uint64_t hits;
  uint64_t misses;
  uint64_t steals;
  uint64_t stream_steals;
  uint64_t retries;
  uint64_t oom_handler_calls;
  uint64_t failed_mallocs;
  uint64_t streams;
  uint64_t metadata_bytes;
  uint64_t asleep_bytes;
  uint64_t backup_bytes;
  uint64_t sleeps;
  uint64_t wakes;
  gpupool_call_stat_t copy;
  gpupool_call_stat_t stream;
  uint64_t share_given_bytes;
  uint64_t share_taken_bytes;
  int32_t share_state;
  uint32_t share_slot;
  uint64_t own_limit_bytes;
} gpupool_stats_t;
typedef struct gpupool_share_t {
  uint32_t struct_size;
  uint32_t members;
  uint64_t limit_bytes;
  uint64_t used_bytes;
  uint64_t total_bytes;
  uint64_t limbo_bytes;
  uint64_t foreign_bytes;
  char path[256];
} gpupool_share_t;
typedef struct gpupool_share_member_t {
  uint32_t slot;
  int32_t state;
  uint64_t pid;
  uint64_t uid;
  int32_t priority;
  uint32_t is_waiting;
  uint64_t want_bytes;
  uint64_t reserved_bytes;
  uint64_t charged_bytes;
  uint64_t live_bytes;
  uint64_t guaranteed_bytes;
  uint64_t limit_bytes;
  uint64_t given_bytes;
  uint64_t taken_bytes;
  char name[40];
} gpupool_share_member_t;
typedef struct gpupool_sleep_options_t {
  uint32_t struct_size;
  int32_t mode;
  uint32_t flags;
  uint32_t fill;
  uint64_t timeout_ns;
  uint64_t target_bytes;
  uint64_t reserved[3];
} gpupool_sleep_options_t;
typedef struct gpupool_sleep_result_t {
  uint32_t struct_size;
  uint32_t pools;
  uint64_t released_bytes;
  uint64_t saved_bytes;
  uint64_t dropped_bytes;
  uint64_t retained_bytes;
  uint64_t created_bytes;
  uint64_t nanoseconds;
} gpupool_sleep_result_t;
typedef struct gpupool_block_t {
  gpupool_ptr_t address;
  uint64_t requested_bytes;
  uint64_t allocated_bytes;
  gpupool_stream_t stream;
  int32_t state;
  int32_t device;
} gpupool_block_t;
typedef struct gpupool_holder_t {
  uint64_t live_bytes;
  uint64_t samples;
  uint64_t oldest_nanoseconds;
  uint64_t newest_nanoseconds;
  char tag[64];
  char stack[2048];
} gpupool_holder_t;
typedef struct gpupool_segment_t {
  gpupool_ptr_t address;
  uint64_t size_bytes;
  gpupool_stream_t stream;
  uint32_t blocks;
  uint32_t is_small;
} gpupool_segment_t;
typedef struct gpupool_sim_config_t {
  uint32_t struct_size;
  uint32_t data;
  uint64_t capacity_bytes;
  double price_scale;
  uint32_t streams;
  uint32_t reserved0;
  uint64_t host_bytes;
  uint64_t reserved[2];
} gpupool_sim_config_t;
uint32_t gpupool_version(void);
const char* gpupool_version_string(void);
uint64_t gpupool_features(void);
const char* gpupool_status_name(gpupool_status_t status);
gpupool_status_t gpupool_last_error(gpupool_error_t* error);
gpupool_status_t gpupool_set_log(gpupool_log_fn_t fn, void* user, int32_t level);
gpupool_status_t gpupool_set_interrupt_check(gpupool_interrupt_fn_t fn, void* user, int32_t on);
gpupool_status_t gpupool_parse_size(const char* text, uint64_t* out_bytes, double* out_share);
gpupool_status_t gpupool_parse_device(const char* text, gpupool_backend_t* out_backend, int32_t* out_device);
const char* gpupool_backend_name(int32_t backend);
gpupool_status_t gpupool_device_count(gpupool_backend_t backend, int32_t* out_count);
gpupool_status_t gpupool_device_info(gpupool_backend_t backend, int32_t device, gpupool_device_info_t* info);
gpupool_status_t gpupool_config_init(gpupool_config_t* config, size_t struct_size);
gpupool_status_t gpupool_create(const gpupool_config_t* config, gpupool_t** out_pool);
gpupool_status_t gpupool_create_child(gpupool_t* parent, gpupool_t** out_pool);
gpupool_status_t gpupool_default_pool(int32_t device, gpupool_t** out_pool);
gpupool_status_t gpupool_destroy(gpupool_t* pool);
gpupool_status_t gpupool_malloc(gpupool_t* pool, uint64_t size, gpupool_stream_t stream, gpupool_ptr_t* out_ptr);
gpupool_status_t gpupool_malloc_aligned(gpupool_t* pool, uint64_t size, uint64_t alignment, gpupool_stream_t stream, gpupool_ptr_t* out_ptr);
gpupool_status_t gpupool_malloc_behind(gpupool_t* pool, uint64_t size, gpupool_ptr_t behind, gpupool_stream_t stream, gpupool_ptr_t* out_ptr);
gpupool_status_t gpupool_count_parts(gpupool_t* pool, int32_t what, int32_t change, int32_t is_small, uint64_t blocks, uint64_t bytes, uint64_t requested_bytes);
gpupool_status_t gpupool_free(gpupool_t* pool, gpupool_ptr_t ptr, gpupool_stream_t stream);
gpupool_status_t gpupool_record_stream(gpupool_t* pool, gpupool_ptr_t ptr, gpupool_stream_t stream);
gpupool_status_t gpupool_block_info(gpupool_t* pool, gpupool_ptr_t ptr, gpupool_block_t* block, size_t block_size);
gpupool_status_t gpupool_release_stream(gpupool_t* pool, gpupool_stream_t stream);
gpupool_status_t gpupool_park_stream(gpupool_t* pool, gpupool_stream_t stream);
gpupool_status_t gpupool_capture_id(gpupool_t* pool, gpupool_stream_t stream, uint64_t* out_capture);
gpupool_status_t gpupool_release_capture(gpupool_t* pool, uint64_t capture);
gpupool_status_t gpupool_announce_capture(gpupool_t* pool, int32_t begins);
gpupool_status_t gpupool_enable_peer(gpupool_t* pool, int32_t peer);
gpupool_status_t gpupool_synchronize(gpupool_t* pool);
gpupool_status_t gpupool_empty(gpupool_t* pool, uint64_t* out_released_bytes);
gpupool_status_t gpupool_trim(gpupool_t* pool, uint64_t target_bytes, uint64_t* out_released_bytes);
gpupool_status_t gpupool_reserve(gpupool_t* pool, uint64_t target_bytes, gpupool_stream_t stream);
gpupool_status_t gpupool_set_fraction(gpupool_t* pool, double fraction);
gpupool_status_t gpupool_set_limit(gpupool_t* pool, uint64_t limit_bytes);
gpupool_status_t gpupool_set_oom_handler(gpupool_t* pool, gpupool_oom_fn_t fn, void* user);
gpupool_status_t gpupool_sleep(gpupool_t* pool, const gpupool_sleep_options_t* options, gpupool_sleep_result_t* out_result);
gpupool_status_t gpupool_wake(gpupool_t* pool, const gpupool_sleep_options_t* options, gpupool_sleep_result_t* out_result);
gpupool_status_t gpupool_sleep_tag(const char* tag, const gpupool_sleep_options_t* options, gpupool_sleep_result_t* out_result);
gpupool_status_t gpupool_wake_tag(const char* tag, const gpupool_sleep_options_t* options, gpupool_sleep_result_t* out_result);
gpupool_status_t gpupool_sleep_block(gpupool_t* pool, gpupool_ptr_t ptr, const gpupool_sleep_options_t* options, gpupool_sleep_result_t* out_result);
gpupool_status_t gpupool_wake_block(gpupool_t* pool, gpupool_ptr_t ptr, const gpupool_sleep_options_t* options, gpupool_sleep_result_t* out_result);
gpupool_status_t gpupool_set_sleep_hooks(gpupool_t* pool, gpupool_sleep_hook_fn_t before_release, gpupool_sleep_hook_fn_t after_map, void* user);
gpupool_status_t gpupool_allow_sleep(gpupool_t* pool, const gpupool_sleep_options_t* options);
gpupool_status_t gpupool_sleep_state(gpupool_t* pool, gpupool_sleep_state_t* out_state);
gpupool_status_t gpupool_set_name(gpupool_t* pool, const char* name);
gpupool_status_t gpupool_name(gpupool_t* pool, char* text, size_t capacity, size_t* out_length);
gpupool_status_t gpupool_set_keep(gpupool_t* pool, gpupool_ptr_t ptr, int32_t keep);
gpupool_status_t gpupool_prepare_backup(gpupool_t* pool, uint64_t bytes);
gpupool_status_t gpupool_backup(gpupool_t* pool, gpupool_ptr_t ptr, const void** out_data, uint64_t* out_bytes);
gpupool_status_t gpupool_read_backup(gpupool_t* pool, gpupool_ptr_t ptr, void* data, uint64_t bytes);
gpupool_status_t gpupool_share_info(const char* share, gpupool_backend_t backend, int32_t device, gpupool_share_t* info, gpupool_share_member_t* members, size_t member_size, size_t member_capacity, size_t* out_member_count);
gpupool_status_t gpupool_share_request(gpupool_t* pool, uint64_t bytes, uint64_t timeout_ns);
gpupool_status_t gpupool_share_set(const char* share, gpupool_backend_t backend, int32_t device, int32_t what, uint32_t member, int64_t value);
gpupool_status_t gpupool_share_repair(const char* share, gpupool_backend_t backend, int32_t device, int64_t* out_off);
gpupool_status_t gpupool_export(gpupool_t* pool, gpupool_ptr_t ptr, char* handle, size_t capacity);
gpupool_status_t gpupool_import(gpupool_t* pool, const char* handle, gpupool_ptr_t* out_ptr, uint64_t* out_size);
gpupool_status_t gpupool_import_close(gpupool_t* pool, gpupool_ptr_t ptr);
gpupool_status_t gpupool_stats(gpupool_t* pool, gpupool_stats_t* stats);
gpupool_status_t gpupool_reset_peaks(gpupool_t* pool);
gpupool_status_t gpupool_snapshot(gpupool_t* pool, gpupool_segment_t* segments, size_t segment_size, size_t segment_capacity, size_t* out_segment_count, gpupool_block_t* blocks, size_t block_size, size_t block_capacity, size_t* out_block_count);
gpupool_status_t gpupool_report(gpupool_t* pool, char* text, size_t capacity, size_t* out_length);
gpupool_status_t gpupool_validate(gpupool_t* pool);
gpupool_status_t gpupool_set_debug(const char* modes);
gpupool_status_t gpupool_check(gpupool_t* pool, uint64_t* out_count, char* text, size_t capacity);
gpupool_status_t gpupool_protect(gpupool_t* pool, gpupool_ptr_t ptr, gpupool_access_t access);
gpupool_status_t gpupool_why(gpupool_ptr_t address, char* text, size_t capacity, size_t* out_length);
gpupool_status_t gpupool_tag_push(const char* tag);
gpupool_status_t gpupool_tag_pop(void);
gpupool_status_t gpupool_holders(gpupool_t* pool, gpupool_holder_t* holders, size_t holder_size, size_t holder_capacity, size_t* out_holder_count);
gpupool_status_t gpupool_set_sampling(uint64_t bytes);
gpupool_status_t gpupool_set_stack_fn(gpupool_stack_fn_t fn, void* user);
gpupool_status_t gpupool_record_start(const char* path, uint32_t flags);
gpupool_status_t gpupool_record_stop(void);
gpupool_status_t gpupool_mark(const char* text);
gpupool_status_t gpupool_stream_create(gpupool_t* pool, gpupool_stream_t* out_stream);
gpupool_status_t gpupool_stream_destroy(gpupool_t* pool, gpupool_stream_t stream);
gpupool_status_t gpupool_stream_synchronize(gpupool_t* pool, gpupool_stream_t stream);
gpupool_status_t gpupool_copy(gpupool_t* pool, gpupool_ptr_t destination, gpupool_ptr_t source, uint64_t size, gpupool_stream_t stream);
gpupool_status_t gpupool_fill(gpupool_t* pool, gpupool_ptr_t destination, uint32_t value, uint64_t size, gpupool_stream_t stream);
gpupool_status_t gpupool_sim_configure(int32_t device, const gpupool_sim_config_t* config);
gpupool_status_t gpupool_sim_script(int32_t device, const char* script);
gpupool_status_t gpupool_sim_work(int32_t device, gpupool_stream_t stream, gpupool_ptr_t ptr, uint64_t size, uint64_t nanoseconds);
gpupool_status_t gpupool_sim_advance(int32_t device, uint64_t nanoseconds);
gpupool_status_t gpupool_sim_capture(int32_t device, gpupool_stream_t stream, int32_t begin);
gpupool_status_t gpupool_sim_launch(int32_t device, uint64_t capture, gpupool_stream_t stream);
gpupool_status_t gpupool_sim_hold(int32_t device, gpupool_ptr_t ptr);
gpupool_status_t gpupool_sim_faults(int32_t device, uint64_t* out_count, char* text, size_t capacity);
