/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool: one pool of GPU memory for programs in any language.
 *
 * INTRODUCTION
 *   A pool hands out blocks of GPU memory quickly, because it keeps what it got from the driver, and
 *   tightly, because it moves physical memory to the addresses that need it. This header is the whole
 *   contract; read from top to bottom it is the manual. The library loads the CUDA driver at run time
 *   and needs nothing of CUDA to be built or installed; where there is no GPU, the same functions work
 *   on an exact simulated device.
 *
 *       gpupool_t *pool;
 *       gpupool_ptr_t block;
 *       gpupool_create(NULL, &pool);
 *       gpupool_malloc(pool, 1 << 20, stream, &block);
 *       ... queue work that uses block on stream ...
 *       gpupool_free(pool, block, stream);
 *       gpupool_destroy(pool);
 *
 * WORDS
 *   device     a GPU, or the simulated device
 *   stream     the caller's queue of GPU work: a CUstream or cudaStream_t cast to an integer; 0 is the
 *              legacy default stream
 *   pool       what gpupool_create gives: heaps, streams, a limit, statistics
 *   chunk      physical memory from the driver, always mapped whole
 *   block      what gpupool_malloc hands out
 *   requested  bytes that were asked for
 *   allocated  requested, rounded up to a multiple of 512
 *   active     allocated, and freed blocks that a stream may still be using
 *   reserved   physical memory held; reserved = active + cached + slack
 *   cached     reserved and free to hand out
 *   slack      reserved, but neither active nor free to hand out: what a graph's capture keeps
 *   idle       no GPU work can still touch it
 *   steal      map a free chunk at another address, or hand it to another stream where it is
 *
 * OWNERSHIP
 *   A pool belongs to whoever created it, a block to whoever called malloc. Blocks may be freed by any
 *   thread. A pool that is destroyed while blocks are live refuses new blocks, still accepts frees, and
 *   goes away with its last block, whose free may then wait for the GPU. Nothing that the library returns
 *   points into its own storage, except the constant strings of gpupool_status_name and
 *   gpupool_version_string.
 *
 * THREADS AND STREAMS
 *   Every function may be called from any thread at any time, with one exception: destroying a pool while
 *   another thread is inside a call on that pool is an error of the caller. No function waits for the GPU
 *   unless its description says so. The calling thread's current CUDA context is left as it was found.
 *
 *   A block belongs to the stream it was allocated for. Work on that stream may use it at once. When it is
 *   freed on that stream, later work of the same stream may get the memory at once, since streams run in
 *   order. When other streams use a block as well, say so with gpupool_record_stream before freeing it (or
 *   name the other stream in the free): it is then handed out again only when those streams have passed.
 *
 * CUDA GRAPHS
 *   While a stream captures, the pool calls nothing that is illegal then. Give a graph a pool of its own
 *   that lives as long as the graph, or create the pool with GPUPOOL_FLAG_CAPTURE_AWARE: then what is
 *   allocated and freed while capturing is reused within that capture only, as long as the pool lives.
 *
 * ERRORS
 *   Every call returns a status. Out-parameters are written on success, and set to 0 on failure where the
 *   pointer is not NULL. A call that fails changes nothing. gpupool_last_error copies the details of this
 *   thread's last failure. A NULL or destroyed pool, or one from another copy of the library, gives
 *   GPUPOOL_ERROR_INVALID_ARGUMENT everywhere.
 *
 * PROCESSES
 *   After fork, the child gets GPUPOOL_ERROR_FORKED for every pool it inherited; it may create new ones on
 *   the simulated device. At exit nothing is torn down: frees still succeed, and mallocs give
 *   GPUPOOL_ERROR_SHUTTING_DOWN once the driver has gone. The library stays loaded after dlclose.
 *
 * GROWTH
 *   Structs that may grow start with struct_size, which the caller sets to sizeof. A shorter struct is
 *   filled up with zeroes; a longer one is accepted only if its unknown tail is zero. Zero means "default"
 *   in every field, for ever. Numbers of enumerators never change.
 *
 * Everything below is available since version 0.1 unless it says otherwise.
 */
#ifndef GPUPOOL_GPUPOOL_H
#define GPUPOOL_GPUPOOL_H

#include <stddef.h>
#include <stdint.h>

#if defined(GPUPOOL_STATIC)
#define GPUPOOL_API
#elif defined(__GNUC__)
#define GPUPOOL_API __attribute__((visibility("default")))
#else
#define GPUPOOL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* gpupool-api-begin: tools/apigen.py and every binding read the region down to gpupool-api-end.
 * No macros with arguments, attributes, bit-fields, unions, varargs or inline functions in here. */

#define GPUPOOL_VERSION_MAJOR 0
#define GPUPOOL_VERSION_MINOR 1
#define GPUPOOL_VERSION_PATCH 0
/* MAJOR * 10000 + MINOR * 100 + PATCH; compare with gpupool_version(). */
#define GPUPOOL_VERSION 100

/* For gpupool_free: "any stream that this pool has seen may still be using the block". */
#define GPUPOOL_STREAM_UNKNOWN 0xffffffffffffffff

/* ---- types ------------------------------------------------------------------------------------ */

/* A pool. Opaque. */
typedef struct gpupool_t gpupool_t;

/* An address on the device. An integer, because most holders can not read through it. */
typedef uint64_t gpupool_ptr_t;

/* A stream: the CUstream as an integer, or a number from gpupool_stream_create. */
typedef uintptr_t gpupool_stream_t;

/* What a call came to. The numbers never change. */
typedef enum gpupool_status_t {
  GPUPOOL_SUCCESS = 0,
  /* An argument is out of range, or a handle is NULL, destroyed or from another copy of the library. */
  GPUPOOL_ERROR_INVALID_ARGUMENT = 1,
  /* The device has no more memory, and nothing that the pool could do has helped. */
  GPUPOOL_ERROR_OUT_OF_MEMORY = 2,
  /* The library could not get memory on the host for its own records. */
  GPUPOOL_ERROR_HOST_OUT_OF_MEMORY = 3,
  /* The call would bring reserved memory above the pool's limit. */
  GPUPOOL_ERROR_OVER_LIMIT = 4,
  /* The pointer is not a live block of this pool: foreign, freed already, or inside a block. */
  GPUPOOL_ERROR_UNKNOWN_POINTER = 5,
  /* The backend can not be used here: no driver, no GPU, or no such device. */
  GPUPOOL_ERROR_UNAVAILABLE = 6,
  /* This device or this mode can not do it, or a struct has fields that this version does not know. */
  GPUPOOL_ERROR_UNSUPPORTED = 7,
  /* The driver refused a call; gpupool_error_t.driver_code has its number. */
  GPUPOOL_ERROR_DRIVER = 8,
  /* The process is exiting and the driver has gone. */
  GPUPOOL_ERROR_SHUTTING_DOWN = 9,
  /* The pool was created before fork, in the parent process. */
  GPUPOOL_ERROR_FORKED = 10,
  /* A promise of the library itself was broken. Please report it. */
  GPUPOOL_ERROR_INTERNAL = 11,
  GPUPOOL_STATUS_FORCE32 = 0x7fffffff
} gpupool_status_t;

/* Where memory comes from. */
typedef enum gpupool_backend_t {
  /* CUDA where there is a usable GPU, else the simulated device. GPUPOOL_BACKEND=cuda|sim in the
   * environment decides instead. */
  GPUPOOL_BACKEND_AUTO = 0,
  GPUPOOL_BACKEND_CUDA = 1,
  GPUPOOL_BACKEND_SIM = 2,
  GPUPOOL_BACKEND_FORCE32 = 0x7fffffff
} gpupool_backend_t;

/* How memory is got from the backend. */
typedef enum gpupool_mode_t {
  /* vmm where the device and the kind allow it, else driver. */
  GPUPOOL_MODE_AUTO = 0,
  /* Chunks that are mapped where they are needed: tightest. Kind device only. */
  GPUPOOL_MODE_VMM = 1,
  /* Segments from the driver's own malloc: for old devices, cudaIpc and RDMA through peermem. */
  GPUPOOL_MODE_DRIVER = 2,
  /* Segments from the callbacks in gpupool_config_t. */
  GPUPOOL_MODE_UPSTREAM = 3,
  GPUPOOL_MODE_FORCE32 = 0x7fffffff
} gpupool_mode_t;

/* What kind of memory. */
typedef enum gpupool_kind_t {
  GPUPOOL_KIND_DEVICE = 0,
  /* Page-locked memory of the host that the device can read and write. */
  GPUPOOL_KIND_PINNED = 1,
  /* Memory that the driver moves between host and device. */
  GPUPOOL_KIND_MANAGED = 2,
  GPUPOOL_KIND_FORCE32 = 0x7fffffff
} gpupool_kind_t;

/* Bits of gpupool_config_t.flags. */
typedef enum gpupool_flag_t {
  /* Ask the driver at every malloc and free whether the stream is capturing a graph; what is allocated
   * and freed while capturing is reused within that capture only. Costs a driver query a call. */
  GPUPOOL_FLAG_CAPTURE_AWARE = 1,
  GPUPOOL_FLAG_FORCE32 = 0x7fffffff
} gpupool_flag_t;

/* Bits of gpupool_features(): what this build can do. */
typedef enum gpupool_feature_t {
  /* The simulated device. Always there. */
  GPUPOOL_FEATURE_SIM = 1,
  /* A CUDA driver with at least one device can be used in this process. */
  GPUPOOL_FEATURE_CUDA = 2,
  GPUPOOL_FEATURE_FORCE32 = 0x7fffffff
} gpupool_feature_t;

/* Bits of gpupool_device_info_t.capabilities. */
typedef enum gpupool_capability_t {
  GPUPOOL_CAPABILITY_VMM = 1,
  GPUPOOL_CAPABILITY_RDMA = 2,
  GPUPOOL_CAPABILITY_MANAGED = 4,
  GPUPOOL_CAPABILITY_FORCE32 = 0x7fffffff
} gpupool_capability_t;

/* State of a block in gpupool_block_t. */
typedef enum gpupool_block_state_t {
  /* Handed out. */
  GPUPOOL_BLOCK_LIVE = 1,
  /* Freed, but a stream may still be using it. */
  GPUPOOL_BLOCK_PENDING = 2,
  /* Free to hand out. */
  GPUPOOL_BLOCK_CACHED = 3,
  GPUPOOL_BLOCK_FORCE32 = 0x7fffffff
} gpupool_block_state_t;

/* Levels of the log. */
typedef enum gpupool_log_level_t {
  GPUPOOL_LOG_OFF = 0,
  GPUPOOL_LOG_ERROR = 1,
  GPUPOOL_LOG_WARNING = 2,
  GPUPOOL_LOG_INFO = 3,
  GPUPOOL_LOG_DEBUG = 4,
  GPUPOOL_LOG_FORCE32 = 0x7fffffff
} gpupool_log_level_t;

/* Receives a line of the log. message is valid during the call only. Called with no lock held. It must
 * not call gpupool. */
typedef void (*gpupool_log_fn_t)(void* user, int32_t level, const char* message);

/* Asked before a malloc fails: size bytes are wanted, attempt counts from 1. Free something and return
 * non-zero to have the malloc tried again, or return 0 to let it fail. Called on the thread of the malloc
 * with no lock held; it may call any function of this library on any pool. */
typedef int32_t (*gpupool_oom_fn_t)(void* user, gpupool_t* pool, uint64_t size, uint32_t attempt);

/* Upstream of a pool: writes size bytes' address, aligned to at least 512, to out_ptr and returns 0, or
 * returns non-zero for "no more memory". Called with no lock held, from any thread. */
typedef int32_t (*gpupool_upstream_malloc_fn_t)(void* user, uint64_t size, gpupool_stream_t stream,
                                                gpupool_ptr_t* out_ptr);

/* Takes back what gpupool_upstream_malloc_fn_t gave, with the same size. No GPU work uses it any more. */
typedef void (*gpupool_upstream_free_fn_t)(void* user, gpupool_ptr_t ptr, uint64_t size,
                                           gpupool_stream_t stream);

/* Details of a failure. */
typedef struct gpupool_error_t {
  uint32_t struct_size;
  /* A gpupool_status_t. */
  int32_t status;
  /* The driver's own number, or 0. */
  int32_t driver_code;
  uint32_t reserved0;
  /* In words, with a terminating zero. An out-of-memory message explains where the memory is. */
  char message[1024];
} gpupool_error_t;

/* How to create a pool. All zero (after struct_size) is a good choice; see gpupool_config_init. */
typedef struct gpupool_config_t {
  uint32_t struct_size;
  /* Bits of gpupool_flag_t; unknown bits are refused. */
  uint32_t flags;
  /* Number of the device, from 0. */
  int32_t device;
  /* A gpupool_backend_t. */
  int32_t backend;
  /* A gpupool_mode_t. */
  int32_t mode;
  /* A gpupool_kind_t. */
  int32_t kind;
  /* Limit as a fraction of the device's memory, in (0, 1]; 0: no such limit. */
  double fraction;
  /* Limit in bytes; 0: no such limit. The smaller of the two holds. */
  uint64_t limit_bytes;
  /* How much more than the live peak may be reserved to save driver calls, as a fraction in [0, 10]:
   * 0.1 allows 10 per cent. 0: default, tight; see docs/architecture.md. */
  double slack;
  /* Size of the largest chunk, a power of two from 2 MiB; 0: default. */
  uint64_t max_chunk_bytes;
  /* Other devices that may access this pool's memory: peer_count numbers. Copied. vmm and driver modes. */
  const int32_t* peers;
  /* For GPUPOOL_MODE_UPSTREAM: both callbacks, and what they get as user. */
  gpupool_upstream_malloc_fn_t upstream_malloc;
  gpupool_upstream_free_fn_t upstream_free;
  void* upstream_user;
  uint32_t peer_count;
  uint32_t reserved0;
  uint64_t reserved[4];
} gpupool_config_t;

/* A device, as gpupool_device_info sees it. */
typedef struct gpupool_device_info_t {
  uint32_t struct_size;
  /* A gpupool_backend_t: GPUPOOL_BACKEND_CUDA or GPUPOOL_BACKEND_SIM. */
  int32_t backend;
  int32_t device;
  /* Bits of gpupool_capability_t. */
  uint32_t capabilities;
  uint64_t total_bytes;
  /* What the device itself says is free now, whoever holds the rest. */
  uint64_t free_bytes;
  /* Sizes of chunks are multiples of this. */
  uint64_t granularity_bytes;
  /* As the driver gives it: 13000 is 13.0. 0 for the simulated device. */
  int32_t driver_version;
  /* Compute capability: 90 is 9.0. */
  int32_t compute_capability;
  char name[128];
} gpupool_device_info_t;

/* One quantity over time. total_allocated - total_freed = current. Current and totals are exact whenever
 * no call is in flight. peak is exact while one thread allocates, and at most 16 MiB (or 4096 blocks) a
 * thread too high with several; of reserved bytes and chunks it is always exact. */
typedef struct gpupool_stat_t {
  uint64_t current;
  uint64_t peak;
  uint64_t total_allocated;
  uint64_t total_freed;
} gpupool_stat_t;

/* The quantities of a group of blocks; see WORDS above. Bytes, and counts of blocks and chunks. */
typedef struct gpupool_stat_group_t {
  gpupool_stat_t requested_bytes;
  gpupool_stat_t allocated_bytes;
  gpupool_stat_t active_bytes;
  gpupool_stat_t reserved_bytes;
  gpupool_stat_t allocated_blocks;
  gpupool_stat_t active_blocks;
  gpupool_stat_t chunks;
} gpupool_stat_group_t;

/* How often a driver function was called, and the time that the calls took (virtual time on the simulated
 * device). Failed calls count too. */
typedef struct gpupool_call_stat_t {
  uint64_t count;
  uint64_t nanoseconds;
} gpupool_call_stat_t;

/* Calls of the driver by kind. */
typedef struct gpupool_driver_stats_t {
  gpupool_call_stat_t create;
  gpupool_call_stat_t release;
  gpupool_call_stat_t map;
  gpupool_call_stat_t set_access;
  gpupool_call_stat_t unmap;
  /* Reserving and releasing addresses. */
  gpupool_call_stat_t address;
  /* The driver's own malloc and free, or the upstream's. */
  gpupool_call_stat_t malloc;
  gpupool_call_stat_t free;
  gpupool_call_stat_t event_record;
  /* Queries of events, streams and capture. */
  gpupool_call_stat_t query;
  /* One stream made to wait for another, on the GPU. */
  gpupool_call_stat_t stream_wait;
  /* The host waiting for the GPU. */
  gpupool_call_stat_t host_wait;
} gpupool_driver_stats_t;

/* Statistics of a pool. all = small + large: blocks of up to 1 MiB are small. reserved_bytes and chunks
 * of a group are those whose chunks back its heaps now. */
typedef struct gpupool_stats_t {
  uint32_t struct_size;
  int32_t device;
  /* The limit in force, in bytes: what gpupool_set_limit or gpupool_set_fraction came to; 0: none. */
  uint64_t limit_bytes;
  uint64_t cached_bytes;
  /* The part of cached_bytes that gpupool_empty would give back: chunks that no block touches. */
  uint64_t releasable_bytes;
  uint64_t slack_bytes;
  gpupool_stat_group_t all;
  gpupool_stat_group_t large;
  gpupool_stat_group_t small;
  gpupool_driver_stats_t driver;
  /* Mallocs served by a thread's own cache, and the others. */
  uint64_t hits;
  uint64_t misses;
  /* Free chunks that were taken from where they lay: mapped at another address, or handed to another stream.
   * And those among them that came from another stream. */
  uint64_t steals;
  uint64_t stream_steals;
  /* Mallocs that had to go down the ladder, times the handler was asked, and mallocs that failed. */
  uint64_t retries;
  uint64_t oom_handler_calls;
  uint64_t failed_mallocs;
  /* Streams that this pool has seen and that were not released. */
  uint64_t streams;
  /* Host memory of the pool's own records. */
  uint64_t metadata_bytes;
} gpupool_stats_t;

/* A block as gpupool_block_info and gpupool_snapshot give it. */
typedef struct gpupool_block_t {
  gpupool_ptr_t address;
  uint64_t requested_bytes;
  uint64_t allocated_bytes;
  gpupool_stream_t stream;
  /* A gpupool_block_state_t. */
  int32_t state;
  int32_t device;
} gpupool_block_t;

/* Mapped memory as gpupool_snapshot gives it: a chunk at its address. */
typedef struct gpupool_segment_t {
  gpupool_ptr_t address;
  uint64_t size_bytes;
  /* The stream whose heap it backs. */
  gpupool_stream_t stream;
  /* Blocks that touch it. 0: gpupool_empty would give it back. */
  uint32_t blocks;
  /* 1: in a heap of small blocks. */
  uint32_t is_small;
} gpupool_segment_t;

/* How a simulated device behaves; see gpupool_sim_configure. Zero means default. */
typedef struct gpupool_sim_config_t {
  uint32_t struct_size;
  /* 1: blocks are real memory of the host with true aliasing, and a gpupool_ptr_t may be cast to a pointer
   * and used. 2: addresses only, for speed. 0: default, 1. */
  uint32_t data;
  /* Default: 150754820096, an H200's. */
  uint64_t capacity_bytes;
  /* Multiplies the measured prices of driver calls. Default: 1. */
  double price_scale;
  uint64_t reserved[4];
} gpupool_sim_config_t;

/* ---- the library ------------------------------------------------------------------------------ */

/* The version of the loaded library, as GPUPOOL_VERSION. Never fails. */
GPUPOOL_API uint32_t gpupool_version(void);

/* The same in words, such as "0.1.0". A constant string. */
GPUPOOL_API const char* gpupool_version_string(void);

/* Bits of gpupool_feature_t. The first call may load the CUDA driver. */
GPUPOOL_API uint64_t gpupool_features(void);

/* The name of a status, such as "GPUPOOL_ERROR_OVER_LIMIT"; "unknown status" for others. A constant string.
 */
GPUPOOL_API const char* gpupool_status_name(gpupool_status_t status);

/* Copies the details of the calling thread's last failure; status is GPUPOOL_SUCCESS if there was none.
 * Successful calls leave it as it is. error->struct_size must be set.
 * Errors: INVALID_ARGUMENT (error is NULL or too short). */
GPUPOOL_API gpupool_status_t gpupool_last_error(gpupool_error_t* error);

/* Sends log lines up to level to fn; fn NULL: to standard error. Process-wide. GPUPOOL_LOG=error|warning|
 * info|debug in the environment sets the level at start; without it the level is GPUPOOL_LOG_OFF.
 * Errors: INVALID_ARGUMENT (unknown level). */
GPUPOOL_API gpupool_status_t gpupool_set_log(gpupool_log_fn_t fn, void* user, int32_t level);

/* ---- devices ---------------------------------------------------------------------------------- */

/* Counts the devices of a backend. The simulated backend has 8.
 * Errors: INVALID_ARGUMENT; UNAVAILABLE, with the reason in gpupool_last_error. */
GPUPOOL_API gpupool_status_t gpupool_device_count(gpupool_backend_t backend, int32_t* out_count);

/* Describes a device. info->struct_size must be set.
 * Errors: INVALID_ARGUMENT (NULL, too short, no such device); UNAVAILABLE; DRIVER. */
GPUPOOL_API gpupool_status_t gpupool_device_info(gpupool_backend_t backend, int32_t device,
                                                 gpupool_device_info_t* info);

/* ---- pools ------------------------------------------------------------------------------------ */

/* Clears config and sets struct_size. Pass sizeof(gpupool_config_t).
 * Errors: INVALID_ARGUMENT (NULL or too short); UNSUPPORTED (longer than this version knows). */
GPUPOOL_API gpupool_status_t gpupool_config_init(gpupool_config_t* config, size_t struct_size);

/* Creates a pool. config NULL means all defaults. Takes no memory from the device yet. Uses the current
 * CUDA context if it belongs to the device, else the device's primary context.
 * Errors: INVALID_ARGUMENT (no such device, fraction outside 0..1, unknown flags, ...), UNAVAILABLE,
 * UNSUPPORTED (mode, kind or peers that the device can not do; non-zero unknown tail), DRIVER,
 * HOST_OUT_OF_MEMORY. */
GPUPOOL_API gpupool_status_t gpupool_create(const gpupool_config_t* config, gpupool_t** out_pool);

/* The one pool of a device that everything in this process shares, created on first use with defaults
 * (backend GPUPOOL_BACKEND_AUTO; GPUPOOL_FRACTION and GPUPOOL_LIMIT in the environment set its limits).
 * It belongs to the process: gpupool_destroy refuses it.
 * Errors: as gpupool_create. */
GPUPOOL_API gpupool_status_t gpupool_default_pool(int32_t device, gpupool_t** out_pool);

/* Destroys a pool and gives its memory back; NULL does nothing. With live blocks, the pool refuses new
 * ones from now on and goes away with its last free. May wait for the GPU.
 * Errors: INVALID_ARGUMENT (destroyed already, or a default pool). */
GPUPOOL_API gpupool_status_t gpupool_destroy(gpupool_t* pool);

/* ---- memory ----------------------------------------------------------------------------------- */

/* Allocates size bytes for work on stream, aligned to 512. Size 0 gives pointer 0. A cached block costs no
 * driver call. Before failing, the pool takes idle blocks of other streams, waits for blocks that streams
 * are still using, empties other pools' caches and asks the out-of-memory handler; only that may wait for
 * the GPU.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, OVER_LIMIT, DRIVER, SHUTTING_DOWN, FORKED, HOST_OUT_OF_MEMORY. */
GPUPOOL_API gpupool_status_t gpupool_malloc(gpupool_t* pool, uint64_t size, gpupool_stream_t stream,
                                            gpupool_ptr_t* out_ptr);

/* The same, aligned to alignment: a power of two of up to 2 MiB. */
GPUPOOL_API gpupool_status_t gpupool_malloc_aligned(gpupool_t* pool, uint64_t size, uint64_t alignment,
                                                    gpupool_stream_t stream, gpupool_ptr_t* out_ptr);

/* Frees a block. Work queued on stream so far may still use it; it is reused in stream order. A stream
 * other than the block's counts as gpupool_record_stream; GPUPOOL_STREAM_UNKNOWN waits for all streams
 * that the pool has seen. Pointer 0 does nothing. Never waits for the GPU.
 * Errors: UNKNOWN_POINTER, FORKED, INVALID_ARGUMENT. */
GPUPOOL_API gpupool_status_t gpupool_free(gpupool_t* pool, gpupool_ptr_t ptr, gpupool_stream_t stream);

/* Says that stream uses the block too: once freed, it is reused only when stream has passed the work that
 * was queued on it when the block was freed. Pointer 0, or the block's own stream, does nothing.
 * Errors: UNKNOWN_POINTER, INVALID_ARGUMENT (GPUPOOL_STREAM_UNKNOWN), FORKED. */
GPUPOOL_API gpupool_status_t gpupool_record_stream(gpupool_t* pool, gpupool_ptr_t ptr,
                                                   gpupool_stream_t stream);

/* Describes the block that contains ptr, which may point anywhere inside it. block_size is
 * sizeof(gpupool_block_t).
 * Errors: UNKNOWN_POINTER (not inside a live block), INVALID_ARGUMENT, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_block_info(gpupool_t* pool, gpupool_ptr_t ptr, gpupool_block_t* block,
                                                size_t block_size);

/* Call before a stream is destroyed: the pool records what it must know of it and never touches the stream
 * again. Its free memory serves other streams. Blocks of it that are live stay valid. A stream that the
 * pool has not seen is no error. Never waits for the GPU.
 * Errors: INVALID_ARGUMENT (GPUPOOL_STREAM_UNKNOWN, or a stream that is capturing), DRIVER, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_release_stream(gpupool_t* pool, gpupool_stream_t stream);

/* Call after each free on a stream whose end nobody will announce: the pool records what it must know of it
 * and does not touch it until it is named again, so that it may be destroyed meanwhile; blocks of it that are
 * still live are then freed on other streams. Its memory stays its own: the next malloc on it, or on a new
 * stream with its number, comes after all that was recorded. A microsecond or two for both. A stream that the
 * pool has not seen is no error. Never waits for the GPU.
 * Errors: INVALID_ARGUMENT (GPUPOOL_STREAM_UNKNOWN, or a stream that is capturing), DRIVER, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_park_stream(gpupool_t* pool, gpupool_stream_t stream);

/* Waits until every stream that the pool has seen has passed the work queued on it so far, and makes freed
 * blocks that waited for them free to hand out.
 * Errors: DRIVER, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_synchronize(gpupool_t* pool);

/* ---- keeping memory, and giving it back ----------------------------------------------------------- */

/* Gives every cached chunk back to the driver: reserved falls to the chunks that live blocks touch. Waits
 * for streams that may still use freed memory. out_released_bytes may be NULL.
 * Errors: DRIVER, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_empty(gpupool_t* pool, uint64_t* out_released_bytes);

/* Gives cached chunks back, the oldest first, until reserved is at most target_bytes or nothing more can
 * be given back. Waits as gpupool_empty does. out_released_bytes may be NULL. */
GPUPOOL_API gpupool_status_t gpupool_trim(gpupool_t* pool, uint64_t target_bytes,
                                          uint64_t* out_released_bytes);

/* Creates memory until reserved is at least target_bytes, mapped for stream and ready to be handed out.
 * Keeps what it got if it can not get all.
 * Errors: OVER_LIMIT, OUT_OF_MEMORY, DRIVER, SHUTTING_DOWN, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_reserve(gpupool_t* pool, uint64_t target_bytes, gpupool_stream_t stream);

/* Limits reserved memory to a fraction of the device's total, in (0, 1]. Replaces the pool's limit. Cached
 * memory above the new limit is given back, as by gpupool_trim.
 * Errors: INVALID_ARGUMENT (not in (0, 1], NaN); OVER_LIMIT (live blocks hold more: nothing changes). */
GPUPOOL_API gpupool_status_t gpupool_set_fraction(gpupool_t* pool, double fraction);

/* The same in bytes; 0 takes the limit away. */
GPUPOOL_API gpupool_status_t gpupool_set_limit(gpupool_t* pool, uint64_t limit_bytes);

/* Sets the handler that is asked before a malloc of this pool fails; fn NULL: none. When the call returns,
 * the old handler may still be running on another thread. */
GPUPOOL_API gpupool_status_t gpupool_set_oom_handler(gpupool_t* pool, gpupool_oom_fn_t fn, void* user);

/* ---- watching --------------------------------------------------------------------------------- */

/* Fills stats. stats->struct_size must be set; it is set to the bytes that were filled.
 * Errors: INVALID_ARGUMENT. Works on inherited pools after fork. */
GPUPOOL_API gpupool_status_t gpupool_stats(gpupool_t* pool, gpupool_stats_t* stats);

/* Sets every peak to the current value. */
GPUPOOL_API gpupool_status_t gpupool_reset_peaks(gpupool_t* pool);

/* Lists what is mapped and what is in it, at one moment: segments and blocks sorted by address. Writes at
 * most the capacities and sets the counts to what there is, so that capacity 0 (with NULL) asks for them.
 * The sizes are sizeof(gpupool_segment_t) and sizeof(gpupool_block_t).
 * Errors: INVALID_ARGUMENT, HOST_OUT_OF_MEMORY. */
GPUPOOL_API gpupool_status_t gpupool_snapshot(gpupool_t* pool, gpupool_segment_t* segments,
                                              size_t segment_size, size_t segment_capacity,
                                              size_t* out_segment_count, gpupool_block_t* blocks,
                                              size_t block_size, size_t block_capacity,
                                              size_t* out_block_count);

/* Explains in words where the pool's memory is: limit, live, cached, largest free range, what waits for
 * streams, what others hold, chunks by size. Writes at most capacity bytes with a terminating zero (text may
 * be NULL with capacity 0); out_length is the length of the whole text without it, and may be NULL. */
GPUPOOL_API gpupool_status_t gpupool_report(gpupool_t* pool, char* text, size_t capacity, size_t* out_length);

/* Checks every promise that the pool's records make to each other. Slow; for tests.
 * Errors: INTERNAL, with what is wrong in gpupool_last_error. */
GPUPOOL_API gpupool_status_t gpupool_validate(gpupool_t* pool);

/* ---- streams and data: for programs that use no other CUDA library ------------------------------------ */

/* Creates a stream on the pool's device that does not synchronise with the legacy default stream.
 * Errors: DRIVER, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_stream_create(gpupool_t* pool, gpupool_stream_t* out_stream);

/* Releases the stream from this pool (gpupool_release_stream) and destroys it. Other pools that have seen
 * it must release it first. */
GPUPOOL_API gpupool_status_t gpupool_stream_destroy(gpupool_t* pool, gpupool_stream_t stream);

/* Waits until the stream has done all work queued on it. */
GPUPOOL_API gpupool_status_t gpupool_stream_synchronize(gpupool_t* pool, gpupool_stream_t stream);

/* Queues a copy of size bytes on stream. Either address may be on the device or on the host; host memory
 * must stay valid until the stream has passed.
 * Errors: DRIVER, UNSUPPORTED (a simulated device without data), INVALID_ARGUMENT. */
GPUPOOL_API gpupool_status_t gpupool_copy(gpupool_t* pool, gpupool_ptr_t destination, gpupool_ptr_t source,
                                          uint64_t size, gpupool_stream_t stream);

/* Queues a fill of size bytes with value (its low 8 bits) on stream. On a simulated device without data
 * the access is checked and nothing is written. */
GPUPOOL_API gpupool_status_t gpupool_fill(gpupool_t* pool, gpupool_ptr_t destination, uint32_t value,
                                          uint64_t size, gpupool_stream_t stream);

/* ---- the simulated device: a laboratory ---------------------------------------------------------- */

/* Sets how simulated device number `device` behaves. Possible only while no pool uses it.
 * config->struct_size must be set.
 * Errors: INVALID_ARGUMENT (no such device, in use, fields out of range); UNSUPPORTED (unknown tail). */
GPUPOOL_API gpupool_status_t gpupool_sim_configure(int32_t device, const gpupool_sim_config_t* config);

/* Makes calls of the simulated driver fail. script is a list "CALL:NUMBER[=ERROR]" with commas: CALL is
 * create, release, map, set_access, unmap, address, malloc, free, event_record, query, stream_wait or
 * host_wait; NUMBER counts that call's occurrences from 1, starting now, or is * for every one; ERROR is
 * out_of_memory or error (default). An empty script ends all failures.
 * Errors: INVALID_ARGUMENT, with the part that was not understood. */
GPUPOOL_API gpupool_status_t gpupool_sim_script(int32_t device, const char* script);

/* Queues work of `nanoseconds` of virtual time on a stream, which reads and writes size bytes at ptr (both
 * may be 0). An access to memory that is not mapped, or that another stream's unfinished work still uses,
 * is an error of the simulated device: see gpupool_sim_faults. */
GPUPOOL_API gpupool_status_t gpupool_sim_work(int32_t device, gpupool_stream_t stream, gpupool_ptr_t ptr,
                                              uint64_t size, uint64_t nanoseconds);

/* Lets virtual time pass. */
GPUPOOL_API gpupool_status_t gpupool_sim_advance(int32_t device, uint64_t nanoseconds);

/* Begins (1) or ends (0) capture on a stream, as cuStreamBeginCapture and cuStreamEndCapture do. */
GPUPOOL_API gpupool_status_t gpupool_sim_capture(int32_t device, gpupool_stream_t stream, int32_t begin);

/* Counts the rules of the device that were broken so far: use of unmapped memory, races between streams,
 * unmapping what is in use, calls that are illegal during capture. The last one is described in words in
 * text as by gpupool_report. out_count may be NULL. */
GPUPOOL_API gpupool_status_t gpupool_sim_faults(int32_t device, uint64_t* out_count, char* text,
                                                size_t capacity);

/* gpupool-api-end */

#ifdef __cplusplus
}
#endif

#endif /* GPUPOOL_GPUPOOL_H */
