/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool: one pool of GPU memory for programs in any language.
 *
 * INTRODUCTION
 *   A pool hands out blocks of GPU memory. It is fast, because it keeps the memory that it got from the
 *   driver, and tight, because it moves physical memory to the addresses that need it. This header is the
 *   whole contract. Read from top to bottom, it is the manual. The library loads the CUDA driver at run time:
 *   neither building nor installing it needs CUDA. Where there is no GPU, the same functions work on an exact
 *   simulated device.
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
 *   stream     the caller's queue of GPU work: a CUstream or cudaStream_t cast to an integer. 0 and 1
 *              (CU_STREAM_LEGACY) both mean the legacy default stream. 2 (CU_STREAM_PER_THREAD) is refused:
 *              it names another queue on each thread, so the pool could not keep its order
 *   pool       what gpupool_create gives: heaps, streams, a limit, statistics
 *   chunk      physical memory from the driver, always mapped whole
 *   block      what gpupool_malloc hands out
 *   requested  bytes that the caller asked for
 *   allocated  requested, rounded up to a multiple of 512
 *   active     allocated, and freed blocks that a stream may still be using
 *   reserved   physical memory that the pool has; reserved = active + cached + slack
 *   cached     reserved and free to hand out
 *   slack      reserved, but neither active nor free to hand out: what a graph's capture keeps
 *   idle       no GPU work can still touch it
 *   steal      map a free chunk at another address, or hand it to another stream where it is
 *   asleep     of a pool or a block: its memory is back with the device, and its addresses stay
 *   tag        a name that pools share
 *
 * OWNERSHIP
 *   A pool belongs to whoever created it, a block to whoever called malloc. Any thread may free a block. A
 *   pool that is destroyed while blocks are live refuses new blocks, still accepts frees, and goes away with
 *   its last block; that last free may wait for the GPU. Nothing that the library returns points into its own
 *   storage, except the constant strings of gpupool_status_name, gpupool_backend_name and
 *   gpupool_version_string.
 *
 * THREADS AND STREAMS
 *   Any thread may call any function at any time, with one exception: destroying a pool while another thread
 *   is inside a call on that pool is an error of the caller. No function waits for the GPU unless its
 *   description says so. Every function leaves the calling thread's current CUDA context as it found it. No
 *   function may be called in a signal handler: if the signal came in the middle of a call of the same
 *   thread, the handler would wait for that call, and the call for it, for ever.
 *
 *   A block belongs to the stream it was allocated for. Work on that stream may use it at once. After a free
 *   on that stream, later work of the same stream may get the memory at once, because a stream runs in order.
 *   If other streams use the block as well, say so with gpupool_record_stream before you free it, or name the
 *   other stream in the free. The pool then hands the memory out again only when those streams have passed:
 *   when they have done the work that was queued on them at the free.
 *
 *   A call that names a stream says that its caller uses the stream: the pool may leave an event there, and
 *   so no other thread may begin or end a capture on the stream meanwhile. A thread that frees without
 *   using the stream, as finalizers do, names GPUPOOL_STREAM_UNKNOWN, unless it frees on the block's own
 *   stream in a pool that nobody captures with, or whose captures are announced (gpupool_announce_capture).
 *   In calls that name no stream the pool touches none. What it does not know of a stream then, it learns
 *   by waiting for all work of the device, where memory is short or a call says that it waits.
 *
 *   A malloc may make its stream wait on the GPU for work that another stream of the pool has queued: where
 *   room is short, and where its stream is about as far behind the host as the other. So queued work must
 *   not wait for work that is queued after it, by a flag in memory for instance; a stream that does so needs
 *   a pool of its own.
 *
 * CUDA GRAPHS
 *   While a stream captures, the pool makes no call that is illegal during a capture. Memory that a capture
 *   has used stays mapped at its addresses, because the graph may run again. A pool with
 *   GPUPOOL_FLAG_CAPTURE_AWARE reuses what a capture allocates and frees within that capture only, until
 *   gpupool_release_capture says that the graph is gone, or the pool ends. Without the flag, give each graph
 *   a new pool that lives as long as the graph: the pool notices a capture when it grows, and from then on
 *   moves nothing and gives nothing back. A child of another pool (gpupool_create_child) keeps its memory in
 *   place from its start, and shares the other's limit.
 *
 * SLEEP
 *   gpupool_sleep gives a pool's memory back to the device and keeps its blocks: their addresses, streams and
 *   sizes. gpupool_wake gets memory and maps it at the same addresses. Blocks then hold what they held
 *   before; blocks that were dropped may hold anything. Graphs, tensors and pointers stay valid across both;
 *   in between nothing may use them. While a pool is asleep, mallocs of a size that they could have awake
 *   fail (GPUPOOL_ERROR_ASLEEP) or wait; free, record_stream, block_info, statistics and destroy work. A
 *   failure leaves the pool either awake or asleep, and all saved contents as they were. Memory that others
 *   hold stays with them: exported chunks, and registrations for RDMA and NCCL. gpupool_sleep_block does
 *   the same with one block of a pool that stays awake, and gpupool_sleep with a target with as many as it
 *   takes. Since 0.2.
 *
 * ERRORS
 *   Every call returns a status. A call that succeeds writes its out-parameters; one that fails sets them to
 *   0 where the pointer is not NULL, and changes nothing else. gpupool_last_error copies the details of this
 *   thread's last failure. A NULL or destroyed pool, or one from another copy of the library, gives
 *   GPUPOOL_ERROR_INVALID_ARGUMENT everywhere. A call that waits may also give GPUPOOL_ERROR_INTERRUPTED: see
 *   gpupool_set_interrupt_check.
 *
 *   If a CUDA context is reset or destroyed under a pool (cudaDeviceReset, cuCtxDestroy), the pool's memory
 *   is gone. The first call on any pool of that device that needs the driver fails with
 *   GPUPOOL_ERROR_DRIVER and driver_code 709, and from then on every call does, but for frees, statistics
 *   and destroy, which succeed. Until then a malloc that a cache serves still gives an address, of memory
 *   that is not there: whoever resets a device should destroy its pools first. gpupool_default_pool then
 *   gives a new pool. Since 0.2.
 *
 * PROCESSES
 *   After fork, the child gets GPUPOOL_ERROR_FORKED from every call on a pool that it inherited, except
 *   gpupool_stats; it may create new ones on the simulated device. At exit the library tears nothing down:
 *   frees still succeed, and mallocs give GPUPOOL_ERROR_SHUTTING_DOWN once the driver has gone. The library
 *   stays loaded after dlclose. Two copies of it in one process (in a wheel and in a program, say) do not
 *   know each other: each has default pools of its own, with all of GPUPOOL_LIMIT. Where one finds another,
 *   it says so on standard error.
 *
 * GROWTH
 *   Structs that may grow start with struct_size, which the caller sets to sizeof. The library fills a
 *   shorter struct up with zeroes, and accepts a longer one only if its unknown tail is zero. Zero means
 *   "default" in every field, for ever. Numbers of enumerators never change.
 *
 * Everything below is available since version 0.1 unless it says otherwise.
 */
#ifndef GPUPOOL_GPUPOOL_H
#define GPUPOOL_GPUPOOL_H

#include <stddef.h>
#include <stdint.h>

#if defined(GPUPOOL_STATIC)
#define GPUPOOL_API
#elif defined(_WIN32) && defined(GPUPOOL_BUILDS)
#define GPUPOOL_API __declspec(dllexport)
#elif defined(_WIN32)
#define GPUPOOL_API __declspec(dllimport)
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
#define GPUPOOL_VERSION_MINOR 2
#define GPUPOOL_VERSION_PATCH 0
/* MAJOR * 10000 + MINOR * 100 + PATCH; compare with gpupool_version(). */
#define GPUPOOL_VERSION 200

/* For gpupool_free: "any stream that this pool has seen may still be using the block". */
#define GPUPOOL_STREAM_UNKNOWN 0xffffffffffffffff

/* Room for a handle of gpupool_export, its terminating zero included. Since 0.2. */
#define GPUPOOL_EXPORT_BYTES 192

/* ---- types ------------------------------------------------------------------------------------ */

/* A pool. Opaque. */
typedef struct gpupool_t gpupool_t;

/* An address on the device. An integer, because most holders cannot read through it. */
typedef uint64_t gpupool_ptr_t;

/* A stream: the CUstream as an integer, or a number from gpupool_stream_create. */
typedef uintptr_t gpupool_stream_t;

/* The result of a call. The numbers never change. */
typedef enum gpupool_status_t {
  GPUPOOL_SUCCESS = 0,
  /* An argument is out of range, or a handle is NULL, destroyed or from another copy of the library. */
  GPUPOOL_ERROR_INVALID_ARGUMENT = 1,
  /* The device has no more memory, or for pinned memory the host, and nothing that the pool tried has helped.
   * So too if the process has no addresses left, which the message says. */
  GPUPOOL_ERROR_OUT_OF_MEMORY = 2,
  /* The library could not get memory on the host for its own records, or to save what sleeps. */
  GPUPOOL_ERROR_HOST_OUT_OF_MEMORY = 3,
  /* The call would take reserved memory above the pool's limit. */
  GPUPOOL_ERROR_OVER_LIMIT = 4,
  /* The pointer is not a live block of this pool: foreign, freed already, or inside a block. */
  GPUPOOL_ERROR_UNKNOWN_POINTER = 5,
  /* The backend cannot be used here: no driver, no GPU, or no such device. */
  GPUPOOL_ERROR_UNAVAILABLE = 6,
  /* This device or this mode cannot do it, or a struct has fields that this version does not know. */
  GPUPOOL_ERROR_UNSUPPORTED = 7,
  /* The driver refused a call; gpupool_error_t.driver_code has its number. */
  GPUPOOL_ERROR_DRIVER = 8,
  /* The process is exiting and the driver has gone. */
  GPUPOOL_ERROR_SHUTTING_DOWN = 9,
  /* The pool was created before fork, in the parent process. */
  GPUPOOL_ERROR_FORKED = 10,
  /* The library broke a promise of its own. Please report it. */
  GPUPOOL_ERROR_INTERNAL = 11,
  /* The pool is asleep, or falling asleep: see gpupool_sleep. Since 0.2. */
  GPUPOOL_ERROR_ASLEEP = 12,
  /* The call waited, and a function of gpupool_set_interrupt_check has ended that. Since 0.2. */
  GPUPOOL_ERROR_INTERRUPTED = 13,
  GPUPOOL_STATUS_FORCE32 = 0x7fffffff
} gpupool_status_t;

/* Where memory comes from. */
typedef enum gpupool_backend_t {
  /* CUDA where there is a usable GPU, else the simulated device. GPUPOOL_BACKEND=cuda|sim|host in the
   * environment overrides this. */
  GPUPOOL_BACKEND_AUTO = 0,
  GPUPOOL_BACKEND_CUDA = 1,
  GPUPOOL_BACKEND_SIM = 2,
  /* Memory of the host, without a GPU and without a simulation. Since 0.2. */
  GPUPOOL_BACKEND_HOST = 3,
  GPUPOOL_BACKEND_FORCE32 = 0x7fffffff
} gpupool_backend_t;

/* How memory is obtained from the backend. */
typedef enum gpupool_mode_t {
  /* vmm where the device, its driver and the kind allow it, else driver. For kind device,
   * GPUPOOL_MODE=vmm|driver in the environment overrides this (since 0.2). */
  GPUPOOL_MODE_AUTO = 0,
  /* Chunks, mapped where they are needed: the tightest mode. Kind device only. */
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
  /* Page-locked host memory that the device can read and write; the driver chooses node and pages. */
  GPUPOOL_KIND_PINNED = 1,
  /* Memory that the driver moves between host and device. */
  GPUPOOL_KIND_MANAGED = 2,
  GPUPOOL_KIND_FORCE32 = 0x7fffffff
} gpupool_kind_t;

/* Bits of gpupool_config_t.flags. */
typedef enum gpupool_flag_t {
  /* At every malloc and free, the pool asks the driver whether the stream is capturing a graph, and reuses
   * what a capture allocates and frees within that capture only. Costs one driver query a call. */
  GPUPOOL_FLAG_CAPTURE_AWARE = 1,
  GPUPOOL_FLAG_FORCE32 = 0x7fffffff
} gpupool_flag_t;

/* Bits of the flags of gpupool_record_start. Since 0.2. */
typedef enum gpupool_record_flag_t {
  /* Records the native stack of each malloc. docs/watch.md says what a stack costs. */
  GPUPOOL_RECORD_NATIVE_STACKS = 1,
  /* Records what the function of gpupool_set_stack_fn says at each malloc. */
  GPUPOOL_RECORD_LANGUAGE_STACKS = 2,
  GPUPOOL_RECORD_FORCE32 = 0x7fffffff
} gpupool_record_flag_t;

/* Bits of gpupool_features(): what this build can do. */
typedef enum gpupool_feature_t {
  /* The simulated device. Always there. */
  GPUPOOL_FEATURE_SIM = 1,
  /* A CUDA driver with at least one device can be used in this process. */
  GPUPOOL_FEATURE_CUDA = 2,
  /* The host's memory can be used as a device's. Since 0.2. */
  GPUPOOL_FEATURE_HOST = 4,
  GPUPOOL_FEATURE_FORCE32 = 0x7fffffff
} gpupool_feature_t;

/* Bits of gpupool_device_info_t.capabilities. */
typedef enum gpupool_capability_t {
  GPUPOOL_CAPABILITY_VMM = 1,
  GPUPOOL_CAPABILITY_RDMA = 2,
  GPUPOOL_CAPABILITY_MANAGED = 4,
  /* The device has no memory of its own, but takes the host's (Jetson, GB10). total_bytes and free_bytes are
   * then what this process may have of it and what it can still get, in its container; a pool sleeps with
   * GPUPOOL_SLEEP_MODE_DROP only, since saved contents would stay in the same memory. Since 0.2. */
  GPUPOOL_CAPABILITY_INTEGRATED = 8,
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
  /* Handed out, but some or all of its memory is away: the pool is asleep, or the block. Since 0.2. */
  GPUPOOL_BLOCK_ASLEEP = 4,
  GPUPOOL_BLOCK_FORCE32 = 0x7fffffff
} gpupool_block_state_t;

/* What happens to the contents of blocks when a pool sleeps. Since 0.2. */
typedef enum gpupool_sleep_mode_t {
  /* They are copied to page-locked host memory, and back. */
  GPUPOOL_SLEEP_MODE_SAVE = 0,
  /* They are lost, except in the blocks that gpupool_set_keep names. */
  GPUPOOL_SLEEP_MODE_DROP = 1,
  GPUPOOL_SLEEP_MODE_FORCE32 = 0x7fffffff
} gpupool_sleep_mode_t;

/* Bits of gpupool_sleep_options_t.flags. Since 0.2. */
typedef enum gpupool_sleep_flag_t {
  /* Changes nothing: every sleep waits for all work of the device's context, and of the contexts of the
   * streams that the pool has seen. */
  GPUPOOL_SLEEP_FLAG_SYNC_CONTEXT = 1,
  /* Sleep: mallocs wait until the pool is awake, instead of failing with GPUPOOL_ERROR_ASLEEP. */
  GPUPOOL_SLEEP_FLAG_HOLD_MALLOCS = 2,
  /* Wake: keeps the page-locked memory for the next sleep, as gpupool_prepare_backup does. */
  GPUPOOL_SLEEP_FLAG_RETAIN_BACKUP = 4,
  /* Wake: fills blocks that were dropped with the byte in `fill`. */
  GPUPOOL_SLEEP_FLAG_FILL = 8,
  GPUPOOL_SLEEP_FLAG_FORCE32 = 0x7fffffff
} gpupool_sleep_flag_t;

/* What work of the device and its peers may do with a block: see gpupool_protect. Since 0.2. */
typedef enum gpupool_access_t {
  GPUPOOL_ACCESS_WRITE = 0,
  GPUPOOL_ACCESS_READ = 1,
  GPUPOOL_ACCESS_NONE = 2,
  GPUPOOL_ACCESS_FORCE32 = 0x7fffffff
} gpupool_access_t;

/* Whether a pool shares the device with other processes. Since 0.2. */
typedef enum gpupool_share_state_t {
  GPUPOOL_SHARE_STATE_OFF = 0,
  /* It should share and cannot, so it works as if it had the device to itself. It wrote the reason to
   * standard error. */
  GPUPOOL_SHARE_STATE_ALONE = 1,
  GPUPOOL_SHARE_STATE_SHARED = 2,
  GPUPOOL_SHARE_STATE_FORCE32 = 0x7fffffff
} gpupool_share_state_t;

/* The state of a member of a group. Since 0.2. */
typedef enum gpupool_share_member_state_t {
  GPUPOOL_SHARE_MEMBER_STATE_LIVE = 1,
  /* It has ended, but the device does not show its memory as free yet. */
  GPUPOOL_SHARE_MEMBER_STATE_LIMBO = 2,
  GPUPOOL_SHARE_MEMBER_STATE_FORCE32 = 0x7fffffff
} gpupool_share_member_state_t;

/* What gpupool_share_set sets. Since 0.2. */
typedef enum gpupool_share_figure_t {
  /* What all members may have together, in bytes. */
  GPUPOOL_SHARE_FIGURE_LIMIT = 1,
  /* What one member may have, in bytes; 0: no limit but the group's. */
  GPUPOOL_SHARE_FIGURE_MEMBER_LIMIT = 2,
  /* What one member is guaranteed, in bytes. */
  GPUPOOL_SHARE_FIGURE_MEMBER_GUARANTEE = 3,
  /* From -8 to 8. */
  GPUPOOL_SHARE_FIGURE_MEMBER_PRIORITY = 4,
  GPUPOOL_SHARE_FIGURE_FORCE32 = 0x7fffffff
} gpupool_share_figure_t;

/* Whether a pool is awake. Since 0.2. */
typedef enum gpupool_sleep_state_t {
  GPUPOOL_SLEEP_STATE_AWAKE = 0,
  GPUPOOL_SLEEP_STATE_FALLING_ASLEEP = 1,
  GPUPOOL_SLEEP_STATE_ASLEEP = 2,
  GPUPOOL_SLEEP_STATE_WAKING = 3,
  GPUPOOL_SLEEP_STATE_FORCE32 = 0x7fffffff
} gpupool_sleep_state_t;

/* What a call waits for when it asks a gpupool_interrupt_fn_t. Since 0.2. */
typedef enum gpupool_wait_t {
  /* A malloc that a sleeping pool holds: for another thread to wake the pool. It has no other end. */
  GPUPOOL_WAIT_WAKE = 1,
  /* For another thread's sleep or wake of the same pool to end. */
  GPUPOOL_WAIT_TURN = 2,
  /* For memory that others may give back: a wake with a timeout, or a request to the members of a group. */
  GPUPOOL_WAIT_MEMORY = 3,
  /* For work that is queued on the device. */
  GPUPOOL_WAIT_GPU = 4,
  GPUPOOL_WAIT_FORCE32 = 0x7fffffff
} gpupool_wait_t;

/* Levels of the log. */
typedef enum gpupool_log_level_t {
  GPUPOOL_LOG_OFF = 0,
  /* Failures of the driver, of the host's memory and of the library itself. */
  GPUPOOL_LOG_ERROR = 1,
  /* Mallocs that fail. */
  GPUPOOL_LOG_WARNING = 2,
  /* Pools that begin and end, and calls that are refused. */
  GPUPOOL_LOG_INFO = 3,
  /* Since 0.2: what a pool does behind a malloc: growth, memory given back and why, memory taken from another
   * stream, waits of the host, the steps of a shortage, streams released or parked, captures released, peers
   * enabled. */
  GPUPOOL_LOG_DEBUG = 4,
  GPUPOOL_LOG_FORCE32 = 0x7fffffff
} gpupool_log_level_t;

/* Receives a line of the log, on the thread that the line is about. message is valid during the call only.
 * The library calls this with no lock held, before the library function that the line is about returns. Since
 * 0.2 it may call any function of this library on any pool; such calls are not logged, and leave the thread's
 * gpupool_last_error as it was. */
typedef void (*gpupool_log_fn_t)(void* user, int32_t level, const char* message);

/* The pool calls this before a malloc of size bytes fails; attempt counts from 1. Free something and return
 * non-zero to have the malloc tried again, or return 0 to let it fail. Since 0.2 the pool asks at most
 * 100,000 times for one malloc, whatever the handler returns, and a wake that is short asks in the same way.
 * It is called on the thread of the malloc with no lock held, and may call any function of this library on
 * any pool. If it destroys the pool itself, the malloc fails with INVALID_ARGUMENT, and the pool ends with
 * it. */
typedef int32_t (*gpupool_oom_fn_t)(void* user, gpupool_t* pool, uint64_t size, uint32_t attempt);

/* A sleep calls one of these before a pool's memory goes, and a wake calls one when it is there again: see
 * gpupool_set_sleep_hooks. ptr is the block that sleeps or wakes alone, or goes to a sleep with a target;
 * 0: all of the pool. Return non-zero if all is well. It is called on the thread of the sleep or the wake
 * with no lock held, and may call any function of this library on any pool, except that those that sleep,
 * wake or prepare this pool give UNAVAILABLE. Since 0.2. */
typedef int32_t (*gpupool_sleep_hook_fn_t)(void* user, gpupool_t* pool, gpupool_ptr_t ptr);

/* The upstream of a pool: writes the address of size bytes, aligned to at least 512, to out_ptr and returns
 * 0, or returns non-zero for "no more memory". Called with no lock held, from any thread. */
typedef int32_t (*gpupool_upstream_malloc_fn_t)(void* user, uint64_t size, gpupool_stream_t stream,
                                                gpupool_ptr_t* out_ptr);

/* Takes back what gpupool_upstream_malloc_fn_t gave, with the same size. No GPU work uses it any more. */
typedef void (*gpupool_upstream_free_fn_t)(void* user, gpupool_ptr_t ptr, uint64_t size,
                                           gpupool_stream_t stream);

/* Says where in the caller's own language a malloc comes from. Writes one line a frame, the innermost first,
 * as "function (file:line)": at most capacity bytes, without a terminating zero. Returns how many bytes it
 * wrote. Called on the thread of the malloc with no lock held. It may call gpupool; mallocs made in it have
 * no stack. Since 0.2. */
typedef size_t (*gpupool_stack_fn_t)(void* user, char* text, size_t capacity);

/* Says whether a call that waits is to give up: non-zero, and it fails with INTERRUPTED. wait is a
 * gpupool_wait_t. It is called on the thread that waits, when a wait begins and then about every 50 ms, with
 * no lock held, and may call any function of this library on any pool. A thread that is not its own concern
 * gets 0. Since 0.2. */
typedef int32_t (*gpupool_interrupt_fn_t)(void* user, int32_t wait);

/* Details of a failure. */
typedef struct gpupool_error_t {
  uint32_t struct_size;
  /* A gpupool_status_t. */
  int32_t status;
  /* The driver's own number, or 0. */
  int32_t driver_code;
  uint32_t reserved0;
  /* In words, with a terminating zero: one line. That of a malloc for which memory was short goes on in more
   * lines, which say where the memory is. */
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
  /* Limit in bytes; 0: no such limit. The smaller of the two holds, or what the environment says if that is
   * less: see gpupool_set_limit. */
  uint64_t limit_bytes;
  /* By how much reserved memory may exceed the live peak to save driver calls, as a fraction in [0, 10]: 0.1
   * allows 10 per cent. 0: default: tight while that costs at most a thousandth of the time, and more where
   * there is room (since 0.2). -1: always tight, whatever it costs (since 0.2). See docs/inside/growth.md. */
  double slack;
  /* Size of the largest chunk, a power of two from 2 MiB; 0: 16 MiB, and up to 128 MiB in a large pool while
   * most of the limit is free. */
  uint64_t max_chunk_bytes;
  /* Other devices that may access this pool's memory: peer_count numbers. Copied. Only in vmm and driver
   * mode. */
  const int32_t* peers;
  /* For GPUPOOL_MODE_UPSTREAM: both callbacks, and what they get as user. */
  gpupool_upstream_malloc_fn_t upstream_malloc;
  gpupool_upstream_free_fn_t upstream_free;
  void* upstream_user;
  uint32_t peer_count;
  uint32_t reserved0;
  uint64_t reserved[4];
  /* The group of processes to share the device's memory with: 1 to 48 letters, digits, '-', '_' and '.'.
   * NULL: the group that GPUPOOL_SHARE in the environment names, if it names one; "": none. Copied. Only
   * pools of kind device or managed whose memory comes from the driver can share. See docs/sharing.md. This
   * and all below: since 0.2. */
  const char* share;
  /* Bytes of the group's memory that are this pool's, whoever needs them. The pool takes them when it is
   * created. */
  uint64_t guaranteed_bytes;
  /* How long a malloc waits for memory that neighbours give back; 0: default, 50 ms. At most 10 s. */
  uint64_t share_wait_ns;
  /* From -8 to 8: the lowest priority gives first, the highest gets first. A process has the highest of its
   * pools. */
  int32_t priority;
  uint32_t reserved1;
  /* After how many seconds without a malloc the pool gives its cached memory back, as by gpupool_empty, but
   * without a wait, so that what a stream freed last stays: 0.001 to a year, by the device's clock. 0: as
   * GPUPOOL_IDLE says ("30s"), else never; -1: never. Calls on any pool of the process notice it, except
   * mallocs and frees that a thread's cache serves; with GPUPOOL_IDLE=30s,thread a thread of the library
   * does, though nobody calls. A malloc that a cache serves counts as made when such a call last came, or
   * when much was last freed to a cache. docs/sleep.md. */
  double idle_seconds;
} gpupool_config_t;

/* A device, as gpupool_device_info sees it. */
typedef struct gpupool_device_info_t {
  uint32_t struct_size;
  /* A gpupool_backend_t, never GPUPOOL_BACKEND_AUTO. */
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

/* One quantity over time. total_allocated - total_freed = current. Current and totals are exact whenever no
 * call is in flight. While one thread allocates, peak is exact; with several, it is too high by at most 16
 * MiB (or 4096 blocks) a thread. The peaks of reserved bytes and chunks are always exact. */
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

/* How often a driver function was called, and how long the calls took (in virtual time on the simulated
 * device). Failed calls count too. */
typedef struct gpupool_call_stat_t {
  uint64_t count;
  uint64_t nanoseconds;
} gpupool_call_stat_t;

/* The pool's own calls of the driver by kind. gpupool_copy, gpupool_fill and gpupool_stream_synchronize are
 * the caller's work, and not counted. */
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

/* Statistics of a pool. all = small + large: blocks of up to 1 MiB are small. reserved_bytes and chunks of a
 * group count the chunks that back its heaps now; all also counts a chunk that backs neither just now. */
typedef struct gpupool_stats_t {
  uint32_t struct_size;
  int32_t device;
  /* The limit in force, in bytes, whether set in bytes, as a fraction or in the environment; 0: none. A
   * group's limit comes on top. */
  uint64_t limit_bytes;
  uint64_t cached_bytes;
  /* The part of cached_bytes that gpupool_empty would give back: chunks that no block touches. What can still
   * be had, even in one block, is limit_bytes - all.reserved_bytes.current + releasable_bytes in mode vmm, if
   * the device has what is not reserved yet. The rest of cached_bytes lies between live blocks. */
  uint64_t releasable_bytes;
  uint64_t slack_bytes;
  gpupool_stat_group_t all;
  gpupool_stat_group_t large;
  gpupool_stat_group_t small;
  gpupool_driver_stats_t driver;
  /* Mallocs that a thread's own cache served, and the others. */
  uint64_t hits;
  uint64_t misses;
  /* Free chunks that the pool mapped at another address or handed to another stream, and the part of them
   * that came from another stream. */
  uint64_t steals;
  uint64_t stream_steals;
  /* Mallocs that met a shortage, calls of the out-of-memory handler, and mallocs that failed. */
  uint64_t retries;
  uint64_t oom_handler_calls;
  uint64_t failed_mallocs;
  /* Streams that this pool has seen and nobody has released. */
  uint64_t streams;
  /* Host memory of the pool's own records. */
  uint64_t metadata_bytes;
  /* Memory that waking will create, because the pool is asleep, or blocks are; a block that sleeps alone
   * leaves it with its free. It is not part of reserved_bytes; blocks in it still count as active. This and
   * all below: since 0.2. */
  uint64_t asleep_bytes;
  /* Page-locked host memory that the pool holds to sleep with. What it saved of a block that was freed
   * asleep goes with the next wake: to free such memory waits for the device. */
  uint64_t backup_bytes;
  /* How often the pool fell asleep, and woke. */
  uint64_t sleeps;
  uint64_t wakes;
  /* More calls of the driver: what sleep, wake and debug modes copy and fill, and streams created and
   * destroyed for that. */
  gpupool_call_stat_t copy;
  gpupool_call_stat_t stream;
  /* What this process has given back because others in its group were short, and what it got after asking
   * them. */
  uint64_t share_given_bytes;
  uint64_t share_taken_bytes;
  /* A gpupool_share_state_t. */
  int32_t share_state;
  /* The number of the process in its group. */
  uint32_t share_slot;
  /* What gpupool_create, gpupool_set_limit or gpupool_set_fraction asked for last, in bytes; 0: nothing. */
  uint64_t own_limit_bytes;
} gpupool_stats_t;

/* A group of processes that share a device's memory, as gpupool_share_info finds it. Since 0.2. */
typedef struct gpupool_share_t {
  uint32_t struct_size;
  /* Members that live, and dead ones whose memory is not confirmed free yet. */
  uint32_t members;
  /* What all members may have together, what they have (guarantees included), and what the device has. */
  uint64_t limit_bytes;
  uint64_t used_bytes;
  uint64_t total_bytes;
  /* The part of used_bytes that dead members held, until the device shows it free. */
  uint64_t limbo_bytes;
  /* Memory that no member held at the last quiet moment: contexts, and programs outside the group. */
  uint64_t foreign_bytes;
  /* Where the region is. */
  char path[256];
} gpupool_share_t;

/* A member of a group. All but charged_bytes is what the member says of itself, and may lag. Since 0.2. */
typedef struct gpupool_share_member_t {
  /* Its number, for gpupool_share_set. */
  uint32_t slot;
  /* A gpupool_share_member_state_t. */
  int32_t state;
  /* As its own namespace sees it. */
  uint64_t pid;
  uint64_t uid;
  int32_t priority;
  /* 1: it waits for want_bytes. */
  uint32_t is_waiting;
  uint64_t want_bytes;
  /* What it has, and what counts for the group: the larger of that and its guarantee. */
  uint64_t reserved_bytes;
  uint64_t charged_bytes;
  /* Bytes in live blocks when it was asked last. */
  uint64_t live_bytes;
  uint64_t guaranteed_bytes;
  /* 0: none but the group's. */
  uint64_t limit_bytes;
  uint64_t given_bytes;
  uint64_t taken_bytes;
  /* The program. */
  char name[40];
} gpupool_share_member_t;

/* How to sleep, or to wake. All zero (after struct_size) is a good choice, and so is NULL. Since 0.2. */
typedef struct gpupool_sleep_options_t {
  uint32_t struct_size;
  /* A gpupool_sleep_mode_t. For sleep only. */
  int32_t mode;
  /* Bits of gpupool_sleep_flag_t; unknown bits are refused. */
  uint32_t flags;
  /* With GPUPOOL_SLEEP_FLAG_FILL: a byte, 0 to 255. */
  uint32_t fill;
  /* Wake: how long to wait for memory that others hold, in nanoseconds. 0: not at all. */
  uint64_t timeout_ns;
  /* gpupool_sleep and gpupool_sleep_tag: how many bytes to give back, while the pool stays awake. 0: all, and
   * it sleeps. Elsewhere it must be 0. */
  uint64_t target_bytes;
  uint64_t reserved[3];
} gpupool_sleep_options_t;

/* The result of a sleep or a wake, in bytes, over all pools that it was for. All zero if there was nothing to
 * do. Since 0.2. */
typedef struct gpupool_sleep_result_t {
  uint32_t struct_size;
  /* Pools that were put to sleep, or woken. */
  uint32_t pools;
  /* Sleep: physical memory that was given back, cached memory included. */
  uint64_t released_bytes;
  /* Sleep: contents of live blocks that were copied to the host. Wake: contents that were copied back. */
  uint64_t saved_bytes;
  /* Sleep and wake: contents of live blocks that were not copied. */
  uint64_t dropped_bytes;
  /* Sleep: the part of released_bytes that the device did not get back, because somebody else holds the
   * memory or the driver did not take it. An estimate if others allocate at the same time. */
  uint64_t retained_bytes;
  /* Wake: physical memory that was created. */
  uint64_t created_bytes;
  /* How long it took, waiting included, by the device's clock. */
  uint64_t nanoseconds;
} gpupool_sleep_result_t;

/* A block as gpupool_block_info and gpupool_snapshot give it. */
typedef struct gpupool_block_t {
  gpupool_ptr_t address;
  uint64_t requested_bytes;
  uint64_t allocated_bytes;
  /* From gpupool_block_info, since 0.2: GPUPOOL_STREAM_UNKNOWN once the stream was released. */
  gpupool_stream_t stream;
  /* A gpupool_block_state_t. */
  int32_t state;
  int32_t device;
} gpupool_block_t;

/* Who holds live bytes of a pool: one call site under one tag. See gpupool_holders. Since 0.2. */
typedef struct gpupool_holder_t {
  /* Estimated from the samples. */
  uint64_t live_bytes;
  /* Live blocks of this holder that are samples. */
  uint64_t samples;
  /* How long the oldest and the newest of them have been live. */
  uint64_t oldest_nanoseconds;
  uint64_t newest_nanoseconds;
  /* With a terminating zero; "": none. */
  char tag[64];
  /* A line for each frame, the innermost first, with a terminating zero; "": unknown. */
  char stack[2048];
} gpupool_holder_t;

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

/* How a simulated device behaves; see gpupool_sim_configure. Zero means what GPUPOOL_SIM in the environment
 * says, such as "capacity=8GiB,price_scale=2", and otherwise the default. */
typedef struct gpupool_sim_config_t {
  uint32_t struct_size;
  /* 1: blocks are real host memory with true aliasing, and a gpupool_ptr_t may be cast to a pointer and used.
   * A fork copies the memory, so parent and child do not see each other's writes. 2: addresses only, for
   * speed. 0: default, 1. */
  uint32_t data;
  /* Default: 150754820096, an H200's. */
  uint64_t capacity_bytes;
  /* Multiplies the measured prices of driver calls. Default: 1. */
  double price_scale;
  /* 1: any number is a stream from its first use on. 2: only 0 and the numbers from gpupool_stream_create are
   * streams; any other number is an error of the simulated device, as it crashes a GPU's driver. 0: default,
   * 1. Since 0.2. */
  uint32_t streams;
  uint32_t reserved0;
  /* Host memory that can be page-locked. Default: 1 TiB. Since 0.2. */
  uint64_t host_bytes;
  uint64_t reserved[2];
} gpupool_sim_config_t;

/* ---- the library ------------------------------------------------------------------------------ */

/* The version of the loaded library, as GPUPOOL_VERSION. Never fails. */
GPUPOOL_API uint32_t gpupool_version(void);

/* The version in words, such as "0.1.0". A constant string. */
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

/* Sends log lines up to level to fn; fn NULL: to standard error, or to the file that GPUPOOL_LOG names.
 * Process-wide. A level that is switched off costs one comparison in functions that are slow anyway, and
 * nothing in a cached malloc or free.
 * GPUPOOL_LOG=error|warning|info|debug in the environment sets the level at start; without it the level is
 * GPUPOOL_LOG_OFF. Since 0.2, more may follow, as in "info,time,process,thread,file=/tmp/gpupool-%p.log":
 * what each line begins with, and a file to append to, where %p is the number of the process. Lines for fn
 * are without.
 * Errors: INVALID_ARGUMENT (unknown level). */
GPUPOOL_API gpupool_status_t gpupool_set_log(gpupool_log_fn_t fn, void* user, int32_t level);

/* Adds (1) a function that every wait of the library asks whether to give up, or takes it away (0): so that
 * Ctrl-C, a deadline or a language's own way of ending threads reaches a call that waits. A call that gives
 * up fails with INTERRUPTED; as after any failure nothing has changed, and it may be made again. Only
 * page-locked memory that a sleep took stays, for the next one: to free it would wait for the device. What
 * the call has begun is undone first, which is not interrupted, and neither are gpupool_destroy and the last
 * free of a destroyed pool: those end with the device's work. A copy that was queued goes on: its memory must
 * stay. While there is such a function, the library looks at the device's work again and again where it would
 * leave the wait to the driver, and a wait for all work of a context gets a thread of its own, which goes on
 * if the call gives up; where the system has no thread left, that wait is not interrupted. A process has room
 * for 16 pairs of fn and user in its life; a pair that was taken away may come back. When the call returns, a
 * function that it took away may still be running on another thread. The packages for Python, Ruby, Java and
 * Node add their own. Since 0.2.
 * Errors: INVALID_ARGUMENT (fn is NULL, on is not 0 or 1, or there is no such pair to take away), UNAVAILABLE
 * (no room). */
GPUPOOL_API gpupool_status_t gpupool_set_interrupt_check(gpupool_interrupt_fn_t fn, void* user, int32_t on);

/* Reads a size as people write it. "4096", "512KiB", "1.5 GiB" and "2g" count in powers of 1,024, "8GB" in
 * powers of 1,000; they set *out_bytes, and *out_share to 0. "40%" sets *out_share to 0.4, for
 * gpupool_set_fraction or gpupool_config_t.fraction, and *out_bytes to 0; if out_share is NULL, a share is
 * refused. The environment and every binding read sizes with this function. The messages call the text a
 * limit if a share may be given, and a size otherwise. Since 0.2.
 * Errors: INVALID_ARGUMENT (anything else, zero included). */
GPUPOOL_API gpupool_status_t gpupool_parse_size(const char* text, uint64_t* out_bytes, double* out_share);

/* Reads a device as people write it: "cuda", "cuda:1", "sim", "sim:3", "host", "auto", or a number alone,
 * which leaves the backend to GPUPOOL_BACKEND_AUTO. Does not ask whether the device is there. Since 0.2.
 * Errors: INVALID_ARGUMENT (anything else). */
GPUPOOL_API gpupool_status_t gpupool_parse_device(const char* text, gpupool_backend_t* out_backend,
                                                  int32_t* out_device);

/* ---- devices ---------------------------------------------------------------------------------- */

/* The name of a backend, as gpupool_parse_device reads it: "cuda", "sim". NULL for GPUPOOL_BACKEND_AUTO and
 * numbers that are none. Backends are numbered from 1 without a gap, so a program can list them. A constant
 * string; never fails. Since 0.2. */
GPUPOOL_API const char* gpupool_backend_name(int32_t backend);

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
 * UNSUPPORTED (mode, kind or peers that the device cannot do; non-zero unknown tail), DRIVER,
 * HOST_OUT_OF_MEMORY, FORKED (this process is a child of one that has used CUDA). */
GPUPOOL_API gpupool_status_t gpupool_create(const gpupool_config_t* config, gpupool_t** out_pool);

/* Creates a child of a pool, for memory that must stay where it is, such as a graph's. The child has its
 * parent's device, mode, kind, slack and chunk sizes, and shares its limit and its peers: what the child
 * reserves counts against the parent's limit, to the byte. It has blocks, streams and statistics of its own.
 * What the child has mapped stays mapped where it is, even while it is free, and serves the child only: no
 * shortage and no other pool takes it. It goes back when gpupool_empty or gpupool_trim is called on the child
 * itself, or when the child is destroyed. If the limit has no room for a malloc of the child, the parent
 * first gives back what it has cached. gpupool_report of the parent says what its children hold. The parent
 * may be destroyed first: its children live on under the same limit, and then nobody can change that limit.
 * gpupool_set_limit and gpupool_set_fraction refuse a child, and a child cannot be a parent. Since 0.2.
 * Errors: INVALID_ARGUMENT (out_pool is NULL; parent is no pool, or a child), UNSUPPORTED (a pool whose
 * memory comes from callbacks), FORKED, SHUTTING_DOWN, HOST_OUT_OF_MEMORY. */
GPUPOOL_API gpupool_status_t gpupool_create_child(gpupool_t* parent, gpupool_t** out_pool);

/* Gives the one pool of a device that everything in this process shares. The first use creates it with
 * defaults (backend GPUPOOL_BACKEND_AUTO). It belongs to the process: gpupool_destroy refuses it.
 * Errors: as gpupool_create. */
GPUPOOL_API gpupool_status_t gpupool_default_pool(int32_t device, gpupool_t** out_pool);

/* Destroys a pool and gives its memory back; NULL does nothing. With live blocks, the pool refuses new
 * ones from now on and goes away with its last free. May wait for the GPU, and no interrupt ends that wait:
 * call gpupool_synchronize first, which can be interrupted. If a stream that the pool has seen is capturing,
 * the memory goes when a pool is created after the capture's end; keep that stream until then. In a function
 * that the library calls inside a call on the pool (the log's, a hook, an upstream), it succeeds too, and the
 * memory goes when a pool is created, or when a call fails, after that call has returned.
 * Errors: INVALID_ARGUMENT (destroyed already, or a default pool), FORKED. */
GPUPOOL_API gpupool_status_t gpupool_destroy(gpupool_t* pool);

/* ---- memory ----------------------------------------------------------------------------------- */

/* Allocates size bytes for work on stream, aligned to 512. Size 0 gives pointer 0. A size above 2^46, which
 * no device has, gives OUT_OF_MEMORY in any pool, be it asleep. A cached block costs no driver call. Before
 * the pool fails, it takes idle blocks of other streams, waits for blocks that streams are still using,
 * empties other pools' caches and asks the out-of-memory handler; only these steps may wait for the GPU.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, OVER_LIMIT, ASLEEP, DRIVER, SHUTTING_DOWN, FORKED,
 * HOST_OUT_OF_MEMORY. */
GPUPOOL_API gpupool_status_t gpupool_malloc(gpupool_t* pool, uint64_t size, gpupool_stream_t stream,
                                            gpupool_ptr_t* out_ptr);

/* As gpupool_malloc, aligned to alignment: a power of two of up to 2 MiB. An alignment above 512 may leave a
 * hole of up to as much before the block, which only smaller blocks fill. Errors: as gpupool_malloc. */
GPUPOOL_API gpupool_status_t gpupool_malloc_aligned(gpupool_t* pool, uint64_t size, uint64_t alignment,
                                                    gpupool_stream_t stream, gpupool_ptr_t* out_ptr);

/* As gpupool_malloc, a block that begins where the block behind ends, so that the two can be used as one: for
 * callers that divide their blocks themselves and need more room in place. Both are of one stream, and either
 * both of up to 1 MiB or both larger. The pool creates or moves there exactly what is missing. behind 0: the
 * block begins where there are addresses for many more behind it. A block ends at its address plus its
 * allocated bytes: sizes that are multiples of 512 leave no gap. Each is freed by itself. Costs as much as a
 * malloc that finds nothing cached. Since 0.2.
 * Errors: as gpupool_malloc; UNKNOWN_POINTER (behind is not a live block's address); UNAVAILABLE (what lies
 * there is in use, or another stream's; memory that comes with addresses of its own; a pool with debug
 * modes). */
GPUPOOL_API gpupool_status_t gpupool_malloc_behind(gpupool_t* pool, uint64_t size, gpupool_ptr_t behind,
                                                   gpupool_stream_t stream, gpupool_ptr_t* out_ptr);

/* Counts parts that the caller makes of blocks of the pool, in place of these blocks, in gpupool_stats: in
 * allocated_blocks, allocated_bytes, active_*, requested_bytes and their peaks, which are as exact as for the
 * pool's own blocks. what is 0 for blocks that the caller divides, which then count no more;
 * GPUPOOL_BLOCK_LIVE for parts that it hands out, GPUPOOL_BLOCK_PENDING for parts that are freed and still in
 * use. change is 1 if so many come, -1 if they go. is_small: whether they count as small; blocks, as the pool
 * has them. Tell of a block that is divided right after its malloc, and that it no more is right after its
 * free: then peaks are too high by what is not yet handed out of it, and never too low. Takes the pool's lock
 * and looks at all threads' caches. reserved_bytes, cached_bytes, reports and samples stay the pool's own,
 * and so does what the pool decides by. Since 0.2. Errors: INVALID_ARGUMENT (no such what or change), FORKED.
 */
GPUPOOL_API gpupool_status_t gpupool_count_parts(gpupool_t* pool, int32_t what, int32_t change,
                                                 int32_t is_small, uint64_t blocks, uint64_t bytes,
                                                 uint64_t requested_bytes);

/* Frees a block. Work queued on stream so far may still use it: the memory is reused in stream order. A
 * stream other than the block's counts as gpupool_record_stream, and so does the number of the block's stream
 * once that was released, for a new stream may have it. GPUPOOL_STREAM_UNKNOWN holds the memory back
 * until all streams that the pool has seen have passed. Pointer 0 does nothing. Never waits for the GPU.
 * Errors: UNKNOWN_POINTER, FORKED, INVALID_ARGUMENT. */
GPUPOOL_API gpupool_status_t gpupool_free(gpupool_t* pool, gpupool_ptr_t ptr, gpupool_stream_t stream);

/* Says that stream uses the block too. After the block's free, the pool reuses the memory only when stream
 * has passed the work that was queued on it at the free. Pointer 0, or the block's own stream, does nothing.
 * Errors: UNKNOWN_POINTER, INVALID_ARGUMENT (GPUPOOL_STREAM_UNKNOWN), FORKED. */
GPUPOOL_API gpupool_status_t gpupool_record_stream(gpupool_t* pool, gpupool_ptr_t ptr,
                                                   gpupool_stream_t stream);

/* Describes the block that contains ptr, which may point anywhere inside it. block_size is
 * sizeof(gpupool_block_t).
 * Errors: UNKNOWN_POINTER (not inside a live block), INVALID_ARGUMENT, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_block_info(gpupool_t* pool, gpupool_ptr_t ptr, gpupool_block_t* block,
                                                size_t block_size);

/* Call this before you destroy a stream: the pool records what it must know about the stream and never
 * touches it again. The stream's free memory serves other streams; its live blocks stay valid. A stream that
 * the pool has not seen is no error. Never waits for the GPU. Of a stream that was destroyed without this,
 * and was not parked, the pool asks the driver at a shortage, a trim, a sleep or a late call of this; where
 * the driver says that it is gone, the pool waits for all work in its place, but a driver may crash instead.
 * Errors: INVALID_ARGUMENT (GPUPOOL_STREAM_UNKNOWN, or a stream that is capturing), DRIVER, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_release_stream(gpupool_t* pool, gpupool_stream_t stream);

/* Call this after each free on a stream if you cannot tell the pool before the stream is destroyed. The pool
 * records what it must know about the stream and does not touch it again until a call names it. In between,
 * the stream may be destroyed; then free its live blocks on other streams. Its memory stays its own: the next
 * malloc on it, or on a new stream with its number, comes after all that was recorded. Work that you queue on
 * it later counts once a call names it again: before you free a block elsewhere that such work uses, call
 * gpupool_record_stream once more. docs/benchmarks.md says what parking costs (pair_parked). A stream that
 * the pool has not seen is no error. Never waits for the GPU. Errors: INVALID_ARGUMENT
 * (GPUPOOL_STREAM_UNKNOWN, or a stream that is capturing), DRIVER, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_park_stream(gpupool_t* pool, gpupool_stream_t stream);

/* Gives the driver's number of the capture under way on stream; 0: none. Since 0.2.
 * Errors: INVALID_ARGUMENT, DRIVER, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_capture_id(gpupool_t* pool, gpupool_stream_t stream,
                                                uint64_t* out_capture);

/* Says that the graph of a capture will not run any more, so its memory is the pool's again: what the capture
 * freed serves other requests, and its live blocks become blocks like any others. Call this when the graph
 * and all its copies are destroyed and all their launches are done. A capture that the pool has not seen is
 * no error. Never waits for the GPU. Since 0.2.
 * Errors: INVALID_ARGUMENT (capture 0, or one that is still under way), DRIVER, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_release_capture(gpupool_t* pool, uint64_t capture);

/* Announces that a capture is about to begin on some stream (begins not 0), or says that one has ended (0):
 * for programs that free from threads which do not use the stream, as finalizers do, so that a capture may
 * begin on it meanwhile. Call it on any thread, before each capture begins and after it has ended, also if
 * it has failed. Calls count: it takes as many ends as beginnings. They hold for the pool, its parent and all
 * their children. In between, no call but gpupool_release_stream and gpupool_stream_synchronize records an
 * event on a stream, frees and gpupool_record_stream queue nothing there, and debug modes leave out what they
 * queue for a free. What another thread is recording has been recorded when the call returns. The price: what
 * is freed meanwhile serves other streams, and what a parked stream has serves it again, only after a wait
 * for all work of the device, which a malloc makes where memory is short; and this goes on for as long as
 * nobody says that the capture has ended. After that, the next calls of a stream's users record its events
 * again. Takes the lock of each of these pools once. Never waits for the GPU. Since 0.2.
 * Errors: INVALID_ARGUMENT (begins is 0, and no capture is announced), FORKED, HOST_OUT_OF_MEMORY. */
GPUPOOL_API gpupool_status_t gpupool_announce_capture(gpupool_t* pool, int32_t begins);

/* Lets device number `peer` access all memory of this pool, what it has now and what it gets later, wherever
 * it is mapped. A peer that has access already, and the pool's own device, are no error. The access lasts
 * until the pool ends. Since 0.2.
 * Errors: INVALID_ARGUMENT (no such device), UNSUPPORTED (the two devices cannot access each other, or the
 * memory comes from an upstream), DRIVER, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_enable_peer(gpupool_t* pool, int32_t peer);

/* Waits until the device has done all work that is queued in the pool's context so far, and on the streams of
 * other contexts that the pool has seen. Freed blocks that waited for streams are then free to hand out.
 * Legal while streams capture, whose own work waits for their graphs. Costs about 100 us; other threads may
 * have to wait to queue work meanwhile. Errors: DRIVER, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_synchronize(gpupool_t* pool);

/* ---- keeping memory, and giving it back ----------------------------------------------------------- */

/* Gives every cached chunk back to the driver: reserved falls to the chunks that live blocks touch. Waits
 * for streams that may still use freed memory. out_released_bytes may be NULL.
 * Errors: DRIVER, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_empty(gpupool_t* pool, uint64_t* out_released_bytes);

/* Gives cached chunks back, the oldest first, until reserved is at most target_bytes or nothing more can
 * be given back. Waits as gpupool_empty does. out_released_bytes may be NULL. Errors: as gpupool_empty. */
GPUPOOL_API gpupool_status_t gpupool_trim(gpupool_t* pool, uint64_t target_bytes,
                                          uint64_t* out_released_bytes);

/* Creates memory until reserved is at least target_bytes, mapped for stream and ready to be handed out. If it
 * cannot get all, it keeps what it got; of more than the device has in all, a vmm pool takes nothing.
 * Errors: OVER_LIMIT, OUT_OF_MEMORY (for more than 2^46 bytes in any pool, as by gpupool_malloc), ASLEEP,
 * INVALID_ARGUMENT (GPUPOOL_STREAM_UNKNOWN), DRIVER, SHUTTING_DOWN, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_reserve(gpupool_t* pool, uint64_t target_bytes, gpupool_stream_t stream);

/* Limits reserved memory to a fraction of the device's total, in (0, 1]. Replaces what gpupool_create or an
 * earlier call set, and no other limit: a smaller one in the environment (GPUPOOL_LIMIT, GPUPOOL_FRACTION and
 * GPUPOOL_CAP, as they are now; since 0.2 for every pool but pinned ones) or of a group still holds. Cached
 * memory above the new limit is given back, as by gpupool_trim.
 * Errors: INVALID_ARGUMENT (not in (0, 1], NaN; nonsense in the environment); OVER_LIMIT (live blocks hold
 * more: nothing changes); FORKED. */
GPUPOOL_API gpupool_status_t gpupool_set_fraction(gpupool_t* pool, double fraction);

/* The same in bytes; 0 takes the pool's own limit away. Errors as above. */
GPUPOOL_API gpupool_status_t gpupool_set_limit(gpupool_t* pool, uint64_t limit_bytes);

/* Sets the handler that the pool asks before a malloc fails; fn NULL: none. When the call returns, the old
 * handler may still be running on another thread. Errors: FORKED. */
GPUPOOL_API gpupool_status_t gpupool_set_oom_handler(gpupool_t* pool, gpupool_oom_fn_t fn, void* user);

/* ---- sleep: giving all memory back, and keeping the addresses ------------------------------------- */

/* Puts a pool to sleep: waits for the streams that it has seen, copies the contents of live blocks to the
 * host as `mode` says, and gives all memory back to the device. options NULL: saves. out_result may be NULL;
 * else its struct_size must be set. Between this call and the end of gpupool_wake, queue no work that uses
 * the pool's memory. If the pool is asleep already, the call succeeds and does nothing. It waits for another
 * thread's sleep or wake to end. Only pools in vmm mode can sleep. Since 0.2.
 * Errors: UNAVAILABLE (a stream is capturing, or the driver does not say; the call comes from a handler that
 * this pool's own wake asks; gpupool_wake_block was called since the last sleep; or a hook refused),
 * HOST_OUT_OF_MEMORY
 * (sleeping takes at most three quarters of what the process can get), UNSUPPORTED (another mode),
 * INVALID_ARGUMENT, DRIVER, FORKED. After an error the pool is awake, and its blocks are as they were. If the
 * driver refuses even to undo, the pool is asleep instead, with all that was saved: gpupool_sleep_state
 * tells, and gpupool_wake tries again.
 *
 * With options->target_bytes the pool stays awake. The call gives back cached memory, and then, one block
 * after another as gpupool_sleep_block does, those that matter least, until the device has target_bytes more
 * (released_bytes less retained_bytes), at most the last block's too many. In mode DROP, blocks without
 * gpupool_set_keep come before those with it, which are saved; among these, the one comes first that was
 * handed out, or brought back by gpupool_wake_block, longest ago (a block that a thread's cache hands out
 * again counts from the first time). Passed over are blocks in which no whole chunk lies, those that are
 * exported or protected, and those that a hook before_release refuses. Blocks that are handed out once the
 * call has begun are left alone; nothing may use the others until it returns, and from then on those that
 * gpupool_block_info calls asleep. HOLD_MALLOCS does nothing, and out_result->pools stays 0.
 * If there is less than target_bytes, all there is goes, and the call succeeds: what it has given back helps
 * whoever needs memory, and out_result->released_bytes says how much it was; a caller that wants all or
 * nothing compares, and calls gpupool_wake. Errors as above. Captures and the host's memory are looked at
 * before blocks go. If the driver fails later, the blocks that went before are asleep, all others are awake,
 * and gpupool_wake brings back all; asleep_bytes of gpupool_stats_t says whether there are any. */
GPUPOOL_API gpupool_status_t gpupool_sleep(gpupool_t* pool, const gpupool_sleep_options_t* options,
                                           gpupool_sleep_result_t* out_result);

/* Wakes a pool: takes what it needs from the limit, creates memory, maps it at the same addresses, and copies
 * back what was saved. Blocks that were freed meanwhile get no memory. When the call returns, the data are
 * there, and work of any stream may use them. Where memory is short, the call empties other pools' caches,
 * has pools put to sleep that may be (gpupool_allow_sleep), asks the out-of-memory handler, and then waits
 * for what others free, for as long as timeout_ns says. Wakes of one process that wait for the same memory
 * are served in the order in which they began to wait; so is the next wake of a pool that has slept since
 * then, even if there is room for it, until its time is up: then it takes what there is. If the pool is awake
 * already, the call wakes the blocks that sleep alone, one after another; if there are none, it succeeds and
 * does nothing. Since 0.2. Errors: OUT_OF_MEMORY, OVER_LIMIT, UNAVAILABLE (the call comes from a handler that
 * this pool's own wake asks; or the pool is awake and its hook failed), DRIVER, HOST_OUT_OF_MEMORY,
 * INVALID_ARGUMENT, FORKED. After an error other than a hook's the pool is asleep as before, and can be woken
 * later; where blocks sleep alone, those that came first may be awake. */
GPUPOOL_API gpupool_status_t gpupool_wake(gpupool_t* pool, const gpupool_sleep_options_t* options,
                                          gpupool_sleep_result_t* out_result);

/* gpupool_sleep for every pool of this process that has the name `tag`; tag NULL: for every one that has a
 * name. A tag that no pool has is no error: out_result->pools is 0. If one pool fails, the call undoes what
 * it did to the others, and returns that pool's status. Since 0.2.
 * target_bytes is for all of these pools together: first what they have cached, then blocks, pool by pool, of
 * lower priority (gpupool_config_t) first, and among equals the pool first in which memory was taken or freed
 * longest ago. Blocks that a pool hands out before its turn may go too. If one fails, what went stays so. */
GPUPOOL_API gpupool_status_t gpupool_sleep_tag(const char* tag, const gpupool_sleep_options_t* options,
                                               gpupool_sleep_result_t* out_result);

/* gpupool_wake for every pool of that name, as gpupool_sleep_tag. Blocks that sleep alone in awake pools come
 * after all pools that sleep, and stay awake if one of them fails. Since 0.2. */
GPUPOOL_API gpupool_status_t gpupool_wake_tag(const char* tag, const gpupool_sleep_options_t* options,
                                              gpupool_sleep_result_t* out_result);

/* Puts one block of an awake pool to sleep, at the address ptr: gives back the chunks that lie wholly inside
 * it, and saves or drops what was in them, as `mode` says. The pool stays awake: mallocs, frees and graphs of
 * other blocks go on. The rest of the block, in chunks that it shares, keeps its memory, but until
 * gpupool_wake_block nothing may use any of it. So memory that a graph needs only while it runs can be away
 * between its runs. The call waits for the streams that the pool has seen, not for mallocs; a free of the
 * block on another thread does not wait for it. out_result->released_bytes is 0 if no chunk lies wholly
 * inside: large blocks have some, and all of a block that is a multiple of 2 MiB, aligned to it, in a pool
 * whose max_chunk_bytes is 2 MiB. A chunk that has been elsewhere stays while a graph, or work that is under
 * way, may use its old addresses. HOLD_MALLOCS does nothing here, and out_result->pools stays 0. If the block
 * is asleep already, the call succeeds and does nothing. A free of a sleeping block drops what was saved and
 * takes no memory; do not free one that a graph will use again. Since 0.2.
 * Errors: as gpupool_sleep, UNKNOWN_POINTER; UNAVAILABLE also if the block was woken in a pool that is
 * asleep; UNSUPPORTED also if it is protected. After an error the block is awake, and all blocks are as they
 * were. If the driver refuses even to undo, the block is asleep instead, with all that was saved:
 * gpupool_wake_block tries again. */
GPUPOOL_API gpupool_status_t gpupool_sleep_block(gpupool_t* pool, gpupool_ptr_t ptr,
                                                 const gpupool_sleep_options_t* options,
                                                 gpupool_sleep_result_t* out_result);

/* Brings back one block, at the address ptr, which sleeps alone or with its pool. When the call returns, work
 * of any stream may use the block. In a sleeping pool it comes ahead of gpupool_wake, which brings the rest,
 * with what else is in the same chunks. So a program can begin with the first of many gibibytes while one of
 * its threads goes on through the others: a call waits for at most one other block. There, until
 * gpupool_wake, mallocs stay refused, graphs must not run, and gpupool_sleep gives UNAVAILABLE. Takes the
 * options of gpupool_wake; out_result->pools stays 0, and in a sleeping pool RETAIN_BACKUP does nothing. If
 * the block is awake, the call succeeds and does nothing. Since 0.2.
 * Errors: as gpupool_wake, and UNKNOWN_POINTER. After an error the block and all others are as before. */
GPUPOOL_API gpupool_status_t gpupool_wake_block(gpupool_t* pool, gpupool_ptr_t ptr,
                                                const gpupool_sleep_options_t* options,
                                                gpupool_sleep_result_t* out_result);

/* Sets what is called before a pool's memory goes, and when it is there again, on the thread of the sleep or
 * the wake: for what must end first, such as registrations for RDMA or NCCL. NULL: nothing. When the call
 * returns, old hooks may still be running on another thread.
 * before_release is called once a sleep has passed its first checks, while all memory is there and before the
 * sleep waits for streams, so it may queue work. If it returns 0, the sleep gives UNAVAILABLE and nothing has
 * changed; one with a target takes another block. after_map is called once the pool, or the block, is awake,
 * before the wake returns; and after a sleep that failed, if before_release agreed. So it may find everything
 * as it was. If it returns 0, the wake gives UNAVAILABLE although the memory is there, and the next wake of
 * that block, or of the pool, calls it again, even if nothing else is to do. gpupool_sleep_tag and
 * gpupool_wake_tag call the hooks of each of their pools. Neither is called for a block with nothing to give
 * back, and after_map not for one that was freed meanwhile. Since 0.2.
 * Errors: FORKED. */
GPUPOOL_API gpupool_status_t gpupool_set_sleep_hooks(gpupool_t* pool, gpupool_sleep_hook_fn_t before_release,
                                                     gpupool_sleep_hook_fn_t after_map, void* user);

/* Lets others have this pool put to sleep. From this call until the next gpupool_wake of the pool, the
 * program promises to use none of its memory, as if the pool were asleep. Meanwhile a malloc or a wake that
 * is short, and stays short once all others have given back what they had cached, may put it to sleep with
 * these options, as gpupool_sleep would: of another pool of this process, on the same device or under the
 * same limit; or, if the pool shares, of a member of its group. Pools of the asker's own process come first,
 * of lower priority, then those that were allowed to longest ago; then members of lower priority.
 * gpupool_wake ends this, after a sleep that is under way; if the pool never slept, it only costs the pool's
 * lock. So call gpupool_wake before the memory is used again. Until the pool sleeps, all other calls work as
 * in any pool that is awake; then as in one that sleeps: a malloc gives ASLEEP, or waits with HOLD_MALLOCS.
 * Hooks (gpupool_set_sleep_hooks) are called on the asker's thread, or on one of the library. A sleep that
 * fails leaves the pool awake, and may be tried again. A second call changes the options; in a pool that
 * sleeps, the call does nothing. Since 0.2. Errors: UNSUPPORTED (as for gpupool_sleep), INVALID_ARGUMENT,
 * FORKED. */
GPUPOOL_API gpupool_status_t gpupool_allow_sleep(gpupool_t* pool, const gpupool_sleep_options_t* options);

/* Says whether a pool is awake: a gpupool_sleep_state_t. Since 0.2. Errors: FORKED. */
GPUPOOL_API gpupool_status_t gpupool_sleep_state(gpupool_t* pool, gpupool_sleep_state_t* out_state);

/* Names a pool, for gpupool_sleep_tag, messages and the report; NULL or "": no name. At most 63 bytes;
 * copied. Since 0.2.
 * Errors: INVALID_ARGUMENT, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_set_name(gpupool_t* pool, const char* name);

/* The pool's name, "" without one, written as by gpupool_report. Since 0.2. Errors: FORKED. */
GPUPOOL_API gpupool_status_t gpupool_name(gpupool_t* pool, char* text, size_t capacity, size_t* out_length);

/* Marks a block (1), so that GPUPOOL_SLEEP_MODE_DROP saves its contents all the same, or takes the mark back
 * (0). The mark goes with the block. The free of a marked block takes the pool's lock. Since 0.2.
 * Errors: UNKNOWN_POINTER, INVALID_ARGUMENT, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_set_keep(gpupool_t* pool, gpupool_ptr_t ptr, int32_t keep);

/* Gets page-locked host memory to save `bytes` with, ahead of the first sleep, and keeps it until it is
 * called with less; 0 gives back what no saved block is in. Page-locking is slow, and may hold up others on
 * the machine, so it is done in pieces of at most 256 MiB. Since 0.2.
 * Errors: HOST_OUT_OF_MEMORY (as for gpupool_sleep), UNSUPPORTED, DRIVER, FORKED. After an error the pool
 * keeps what it had. */
GPUPOOL_API gpupool_status_t gpupool_prepare_backup(gpupool_t* pool, uint64_t bytes);

/* Says where the saved contents of a sleeping block are: *out_bytes of them from ptr on; ptr may point
 * anywhere inside the block. The contents lie in pieces: ask again with ptr + *out_bytes for what comes next
 * in the block. Valid until the block is freed, or it or the pool is woken. Since 0.2.
 * Errors: UNKNOWN_POINTER (not in a live block), UNAVAILABLE (what is at ptr is not asleep, or dropped),
 * FORKED. */
GPUPOOL_API gpupool_status_t gpupool_backup(gpupool_t* pool, gpupool_ptr_t ptr, const void** out_data,
                                            uint64_t* out_bytes);

/* Copies what was saved of a sleeping block to the host's memory at data: `bytes` from ptr on, which may
 * point anywhere inside the block. Unlike the pointer of gpupool_backup, a copy is safe from a free of the
 * block or a wake on another thread: the call fails if one comes before it is done. Since 0.2. Errors:
 * UNKNOWN_POINTER (not in a live block), UNAVAILABLE (some of it is not asleep, or dropped), INVALID_ARGUMENT
 * (data is NULL, or the block ends earlier), FORKED. After an error data may hold anything. */
GPUPOOL_API gpupool_status_t gpupool_read_backup(gpupool_t* pool, gpupool_ptr_t ptr, void* data,
                                                 uint64_t bytes);

/* ---- sharing: one card, many processes ------------------------------------------------------------ */

/* Describes a group and its members, from outside: the caller need not be one. share NULL: as GPUPOOL_SHARE
 * in the environment says. info->struct_size must be set. Writes up to member_capacity members of member_size
 * bytes each, in the order of their numbers, and sets *out_member_count to how many there are; a capacity of
 * 0 (members may be NULL) only counts them. member_size is sizeof(gpupool_share_member_t). Since 0.2.
 * Errors: INVALID_ARGUMENT; UNAVAILABLE (there is no such group, or its region cannot be used:
 * gpupool_last_error says why). */
GPUPOOL_API gpupool_status_t gpupool_share_info(const char* share, gpupool_backend_t backend, int32_t device,
                                                gpupool_share_t* info, gpupool_share_member_t* members,
                                                size_t member_size, size_t member_capacity,
                                                size_t* out_member_count);

/* Asks the other members of the pool's group, ahead of need, to give back cached memory until there is room
 * for `bytes` more. Waits at most timeout_ns (10 s at most). What came is there for whoever takes it first,
 * with gpupool_reserve for instance. Since 0.2.
 * Errors: OVER_LIMIT (less came, or the pool's own limit has no room), UNAVAILABLE (the pool shares with
 * nobody), INVALID_ARGUMENT, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_share_request(gpupool_t* pool, uint64_t bytes, uint64_t timeout_ns);

/* Sets a figure of a group, or of one of its members, from outside. `what` is a gpupool_share_figure_t;
 * member is a number from gpupool_share_info, ignored for the group's limit. A limit below what is used takes
 * nothing away; the group gives nothing more until it is within the limit. share as for gpupool_share_info.
 * Since 0.2.
 * Errors: INVALID_ARGUMENT (no such member, or a value out of range), OVER_LIMIT (the group cannot guarantee
 * that), UNAVAILABLE (no such group; or the member does not answer). */
GPUPOOL_API gpupool_status_t gpupool_share_set(const char* share, gpupool_backend_t backend, int32_t device,
                                               int32_t what, uint32_t member, int64_t value);

/* Takes back what dead members have left, as members do themselves when they are short, and corrects the
 * group's used bytes if they are not what the members have; *out_off (may be NULL) says by how much they were
 * too high. share as for gpupool_share_info. Since 0.2.
 * Errors: INVALID_ARGUMENT; UNAVAILABLE (no such group). */
GPUPOOL_API gpupool_status_t gpupool_share_repair(const char* share, gpupool_backend_t backend,
                                                  int32_t device, int64_t* out_off);

/* ---- memory between processes ----------------------------------------------------------------- */

/* Lets other processes of the same user use a block: writes a handle, a line of text of less than
 * GPUPOOL_EXPORT_BYTES bytes, which may reach them in any way. The handle is good until the block is freed,
 * or this process ends; a second export of the block gives the same one. The memory stays where it is: while
 * a block is exported, gpupool_sleep gives UNAVAILABLE. When it is freed, processes that have imported it
 * keep its memory, contents included. The block then counts as one that streams still use, and its memory
 * serves other requests once all of them have closed it or ended; where one was killed, a few seconds later,
 * since its work may outlive it. If this pool or process ends first, the driver keeps the memory for them.
 * Other processes get the whole chunks that the block lies in, with whatever else is in there, so export to
 * trusted ones only. While a block is exported, the process holds one descriptor and one for each of its
 * chunks. Only on Linux. Never waits for the GPU: say in your own way when the contents are ready. Since 0.2.
 * Errors: UNKNOWN_POINTER (ptr is not the address of a live block), UNSUPPORTED (not a vmm pool, a pool with
 * debug modes, a system other than Linux, a simulated device without data, or a device that does not share),
 * INVALID_ARGUMENT (handle is NULL, or capacity less than GPUPOOL_EXPORT_BYTES), ASLEEP, UNAVAILABLE (no more
 * descriptors), DRIVER, HOST_OUT_OF_MEMORY, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_export(gpupool_t* pool, gpupool_ptr_t ptr, char* handle,
                                            size_t capacity);

/* Maps a block of another process for this pool's device and its peers: *out_ptr is its address here,
 * *out_size how many bytes were allocated there. It is the same physical memory, and both may write. It is no
 * block of this pool, and counts in none of its figures. Importing a handle again gives the same address, and
 * needs a close of its own. Only the user that exported, on the same device, can import, and where Yama
 * restricts ptrace (kernel.yama.ptrace_scope), only a parent of the exporter, or whom it lets with
 * PR_SET_PTRACER. The importer must see the exporter: both are in one PID namespace, or the exporter is in
 * one below, as a container's is below its host's. Only on Linux. Since 0.2. Errors: INVALID_ARGUMENT (no
 * handle of gpupool_export; or one of another device), UNAVAILABLE (the exporter has ended or freed the
 * block, or the system forbids access to it: gpupool_last_error says which), UNSUPPORTED, DRIVER,
 * HOST_OUT_OF_MEMORY, FORKED. After an error nothing has changed. */
GPUPOOL_API gpupool_status_t gpupool_import(gpupool_t* pool, const char* handle, gpupool_ptr_t* out_ptr,
                                            uint64_t* out_size);

/* Ends an import. The last close of a handle waits for all work of the device's context, and unmaps the
 * memory. What is not closed ends with the pool or the process. Since 0.2.
 * Errors: UNKNOWN_POINTER (nothing is imported there), DRIVER, FORKED. After an error the memory is still
 * mapped. */
GPUPOOL_API gpupool_status_t gpupool_import_close(gpupool_t* pool, gpupool_ptr_t ptr);

/* ---- watching --------------------------------------------------------------------------------- */

/* Fills stats. stats->struct_size must be set; the call sets it to the bytes that it filled. Works on
 * inherited pools after fork.
 * Errors: INVALID_ARGUMENT. */
GPUPOOL_API gpupool_status_t gpupool_stats(gpupool_t* pool, gpupool_stats_t* stats);

/* Sets every peak to the current value. Errors: FORKED. */
GPUPOOL_API gpupool_status_t gpupool_reset_peaks(gpupool_t* pool);

/* Lists what is mapped and what is in it: segments and blocks sorted by address. While other threads allocate
 * and free, the list is not of one moment: each entry was so during the call, what did not change is listed
 * once, and no two entries overlap. Writes at most the capacities and sets the counts to what there is;
 * capacity 0 (with NULL) only counts. The sizes are sizeof(gpupool_segment_t) and sizeof(gpupool_block_t).
 * Errors: INVALID_ARGUMENT, HOST_OUT_OF_MEMORY, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_snapshot(gpupool_t* pool, gpupool_segment_t* segments,
                                              size_t segment_size, size_t segment_capacity,
                                              size_t* out_segment_count, gpupool_block_t* blocks,
                                              size_t block_size, size_t block_capacity,
                                              size_t* out_block_count);

/* Explains in words where the pool's memory is, a fact a line: limit, live, cached, largest free range, what
 * waits for streams, what others hold, chunks by size. Writes at most capacity bytes with a terminating zero
 * (text may be NULL with capacity 0). Sets *out_length to the length of the whole text without the zero;
 * out_length may be NULL. Errors: FORKED, HOST_OUT_OF_MEMORY. */
GPUPOOL_API gpupool_status_t gpupool_report(gpupool_t* pool, char* text, size_t capacity, size_t* out_length);

/* Checks every promise that the pool's records make to each other. Slow; for tests.
 * Errors: INTERNAL, with what is wrong in gpupool_last_error; FORKED. */
GPUPOOL_API gpupool_status_t gpupool_validate(gpupool_t* pool);

/* Sets the debug modes of the pools that are created from now on, except children. modes is a list with
 * commas of poison (fills blocks with NaN when they are handed out, and when they are free), canary (512
 * bytes and more behind each block must stay as they are: see gpupool_check; they count as requested bytes),
 * fence or fence=SIZE (gives blocks, or those of at least that size, mappings of their own, which go with
 * them, so that an access beyond the end or after the free faults), guard (does so for a few sampled blocks),
 * annotate (tells a simulated device, AddressSanitizer, Valgrind and compute-sanitizer where blocks are; 512
 * bytes and more behind each, which count as requested bytes, are in none) and quarantine=SIZE (holds back so
 * many bytes of freed blocks). "": none; NULL: the modes of GPUPOOL_DEBUG in the environment; without it, a
 * pool of mode auto under compute-sanitizer has annotate. docs/debugging.md says what each mode finds and
 * what it costs. Every malloc and free of such a pool takes the long way, except with guard alone. Fences
 * need vmm mode; pools with fence or guard cannot sleep. Since 0.2. Errors: INVALID_ARGUMENT, with the word
 * that was not understood. Creating a pool gives it for the environment's list, and UNSUPPORTED for poison or
 * canary on a simulated device without data, and for annotate on a GPU without compute-sanitizer, in vmm
 * mode, or beside poison or canary. */
GPUPOOL_API gpupool_status_t gpupool_set_debug(const char* modes);

/* Looks behind every block of a pool in debug mode canary, and into those that quarantine holds back, if
 * mode poison has filled them, and waits until the GPU has done so. Counts the findings since the pool was
 * created, by this function and by frees: bytes that were written beyond the end of a block, or after its
 * free. A process that exits before its pools have gone looks once more, and the log has what it finds.
 * Describes the last findings in words in text, as gpupool_report does. Each also goes to the log as an
 * error, or to standard error if the log is off. out_count may be NULL. A pool without debug modes has no
 * findings. Since 0.2.
 * Errors: DRIVER, HOST_OUT_OF_MEMORY, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_check(gpupool_t* pool, uint64_t* out_count, char* text, size_t capacity);

/* Sets what work may do with a block from now on. With GPUPOOL_ACCESS_READ a write to it is a fault of the
 * hardware, at no cost to those who read; with GPUPOOL_ACCESS_NONE every access is. GPUPOOL_ACCESS_WRITE ends
 * that, and so does the block's free. Waits for nothing: the rule holds for work that is queued already, too.
 * Only for a block that shares no chunk with others. Where max_chunk_bytes is 2 MiB, a block of whole
 * granules of 2 MiB that is aligned to as much never shares one; elsewhere it depends. A pool with such
 * blocks cannot sleep. Since 0.2.
 * Errors: UNKNOWN_POINTER, UNSUPPORTED (not a vmm pool; the block shares a chunk, or is asleep), DRIVER,
 * INVALID_ARGUMENT, HOST_OUT_OF_MEMORY, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_protect(gpupool_t* pool, gpupool_ptr_t ptr, gpupool_access_t access);

/* Says in words what is or was at an address, in any pool of this process: the block, how far into it the
 * address is, who allocated it, who freed it, and its neighbours. Only pools with debug modes know who freed
 * a block, and which freed blocks there were; other pools know who allocated a live block if it is a sample.
 * Written as by gpupool_report. An address that no pool knows is no error: the text says so. Since 0.2.
 * Errors: INVALID_ARGUMENT, HOST_OUT_OF_MEMORY. */
GPUPOOL_API gpupool_status_t gpupool_why(gpupool_ptr_t address, char* text, size_t capacity,
                                         size_t* out_length);

/* Begins a part of the calling thread's work: until the next gpupool_tag_pop of this thread, its mallocs
 * carry this name, of 1 to 63 bytes, in reports and recordings. Tags nest, up to 64 deep; the innermost
 * counts. The name is copied. A process has 4,094 names; later ones are all called "(other tags)". Since 0.2.
 * Errors: INVALID_ARGUMENT, HOST_OUT_OF_MEMORY. */
GPUPOOL_API gpupool_status_t gpupool_tag_push(const char* tag);

/* Ends what the last gpupool_tag_push of this thread began. Since 0.2.
 * Errors: INVALID_ARGUMENT (this thread is inside no tag). */
GPUPOOL_API gpupool_status_t gpupool_tag_pop(void);

/* Lists who holds the live bytes of the pool, the largest first, estimated from samples: a live block of S
 * bytes is a sample with probability 1 - exp(-S / D). D is a 1,024th of what is live, at least 1 MiB, or
 * what gpupool_set_sampling says, and at most 64 MiB. So large holders are always listed, and their bytes are
 * within a few per cent. Writes at most the capacity and sets the count to what there is; capacity 0 (with
 * NULL) only counts. holder_size is sizeof(gpupool_holder_t). Since 0.2.
 * Errors: INVALID_ARGUMENT, HOST_OUT_OF_MEMORY, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_holders(gpupool_t* pool, gpupool_holder_t* holders, size_t holder_size,
                                             size_t holder_capacity, size_t* out_holder_count);

/* Sets how densely the mallocs of all pools are sampled: the least D of gpupool_holders in bytes; 0: no
 * samples from now on. Overrides GPUPOOL_SAMPLE in the environment, which is a size or 0. If neither is
 * given, samples become rarer before they cost more than a fiftieth of the time. Since 0.2.
 * Errors: INVALID_ARGUMENT (more than 2^46), HOST_OUT_OF_MEMORY. */
GPUPOOL_API gpupool_status_t gpupool_set_sampling(uint64_t bytes);

/* Sets the function that says where a malloc comes from; fn NULL: none. A process has one. When the call
 * returns, the old one may still be running on another thread. Since 0.2.
 * Errors: INVALID_ARGUMENT (user, no fn). */
GPUPOOL_API gpupool_status_t gpupool_set_stack_fn(gpupool_stack_fn_t fn, void* user);

/* Records every malloc and free of all pools of this process, and what is live now, to a new file that the
 * gpupool command reads; "%p" in the path becomes the process's number. Flags are bits of
 * gpupool_record_flag_t. Only its owner can read the file. It is complete up to the last event if the process
 * is killed. A path where something already is, even a symbolic link, is refused. A child after fork is not
 * recorded. If the disk is full, events are counted as lost. Since 0.2.
 *
 * "FILE,last=512MiB" (1 MiB to 4 GiB) or "FILE,last=10min" (from 1 s) keeps the newest events, of at least a
 * half of that and at most all: a FILE that has the half becomes FILE.old, in place of the one before, and a
 * new recording begins at FILE with what is live. The first malloc that fails for want of memory makes it
 * FILE.oom, which stays. None of the three may be there at the start. A malloc makes the change, which takes
 * 0.1 us for each live block; if the next file cannot be made, the recording ends, and the log says why.
 * Errors: INVALID_ARGUMENT (also while a recording is under way), HOST_OUT_OF_MEMORY. */
GPUPOOL_API gpupool_status_t gpupool_record_start(const char* path, uint32_t flags);

/* Ends the recording. Since 0.2.
 * Errors: INVALID_ARGUMENT (there is none). */
GPUPOOL_API gpupool_status_t gpupool_record_stop(void);

/* Notes a moment in the recording, such as "step 12": a text of 1 to 255 bytes. Without a recording it does
 * nothing. Since 0.2.
 * Errors: INVALID_ARGUMENT. */
GPUPOOL_API gpupool_status_t gpupool_mark(const char* text);

/* ---- streams and data: for programs that use no other CUDA library ------------------------------------ */

/* Creates a stream on the pool's device that does not synchronise with the legacy default stream.
 * Errors: DRIVER, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_stream_create(gpupool_t* pool, gpupool_stream_t* out_stream);

/* Releases the stream from this pool (gpupool_release_stream) and destroys it. Other pools that have seen
 * it must release it first. Errors: as gpupool_release_stream. */
GPUPOOL_API gpupool_status_t gpupool_stream_destroy(gpupool_t* pool, gpupool_stream_t stream);

/* Waits until the stream has done all work queued on it. Errors: INVALID_ARGUMENT (GPUPOOL_STREAM_UNKNOWN),
 * DRIVER, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_stream_synchronize(gpupool_t* pool, gpupool_stream_t stream);

/* Queues a copy of size bytes on stream. Either address may be on the device or on the host; host memory must
 * stay valid until the stream has passed. Between two devices, enable access first (gpupool_enable_peer): on
 * CUDA this is cuMemcpyAsync, and CUDA does not document that it reaches mapped memory without access.
 * Errors: DRIVER, UNSUPPORTED (a simulated device without data), INVALID_ARGUMENT, FORKED. */
GPUPOOL_API gpupool_status_t gpupool_copy(gpupool_t* pool, gpupool_ptr_t destination, gpupool_ptr_t source,
                                          uint64_t size, gpupool_stream_t stream);

/* Queues a fill of size bytes with value (its low 8 bits) on stream. A simulated device without data checks
 * the access and writes nothing. Errors: as gpupool_copy. */
GPUPOOL_API gpupool_status_t gpupool_fill(gpupool_t* pool, gpupool_ptr_t destination, uint32_t value,
                                          uint64_t size, gpupool_stream_t stream);

/* ---- the simulated device: a laboratory ---------------------------------------------------------- */

/* Sets how simulated device number `device` behaves. Possible only while no pool uses it.
 * config->struct_size must be set.
 * Errors: INVALID_ARGUMENT (no such device, in use, fields out of range); UNSUPPORTED (unknown tail). */
GPUPOOL_API gpupool_status_t gpupool_sim_configure(int32_t device, const gpupool_sim_config_t* config);

/* Makes calls of the simulated driver fail. script is a list "CALL:NUMBER[=ERROR]" with commas: CALL is
 * create, release, map, set_access, unmap, address, malloc, free, event_record, query, stream_wait,
 * host_wait, copy (those of sleep and wake), stream (creating and destroying one) or share (exporting a chunk
 * to other processes, and importing one; since 0.2); NUMBER counts that call's occurrences from 1, starting
 * now, or is * for every one; ERROR is out_of_memory, error (default), or kill (since 0.2), which ends the
 * process before the call has done anything, as kill -9 does. An empty script ends all failures.
 * Errors: INVALID_ARGUMENT, with the part that was not understood. */
GPUPOOL_API gpupool_status_t gpupool_sim_script(int32_t device, const char* script);

/* Queues work of `nanoseconds` of virtual time on a stream. The work reads and writes size bytes at ptr (both
 * may be 0). An access to memory that is not mapped, or that another stream's unfinished work still uses, is
 * an error of the simulated device: see gpupool_sim_faults. Since 0.2, so is an access to another device's
 * memory that device number `device` has no access to: see gpupool_enable_peer. gpupool_fill is work too;
 * gpupool_copy may touch the memory of any device. */
GPUPOOL_API gpupool_status_t gpupool_sim_work(int32_t device, gpupool_stream_t stream, gpupool_ptr_t ptr,
                                              uint64_t size, uint64_t nanoseconds);

/* Lets virtual time pass. */
GPUPOOL_API gpupool_status_t gpupool_sim_advance(int32_t device, uint64_t nanoseconds);

/* Begins (1, 2) or ends (0) capture on a stream, as cuStreamBeginCapture and cuStreamEndCapture do. Work,
 * fills and copies that are queued meanwhile are not done, but kept for gpupool_sim_launch. After 2, calls of
 * the driver that touch the stream from other threads are faults: on a GPU they end the capture, or the
 * process, if they meet its beginning or its end. */
GPUPOOL_API gpupool_status_t gpupool_sim_capture(int32_t device, gpupool_stream_t stream, int32_t begin);

/* Queues on a stream what an ended capture of this device recorded, as cuGraphLaunch does, at the addresses
 * of the capture. If they are not mapped now, that is an error of the simulated device. `capture` is the
 * number that gpupool_capture_id gave while the capture was under way; any stream of the device will do, any
 * number of times. A recording stays until the device is configured anew. Since 0.2.
 * Errors: INVALID_ARGUMENT (no such device, no such capture on it, or one that is still under way); DRIVER,
 * UNSUPPORTED as for work, fills and copies. */
GPUPOOL_API gpupool_status_t gpupool_sim_launch(int32_t device, uint64_t capture, gpupool_stream_t stream);

/* Lets somebody else hold the physical memory that is mapped at ptr, as NCCL does with
 * cuMemRetainAllocationHandle. That memory does not return to the device until a call with ptr 0 ends all
 * holds. Since 0.2.
 * Errors: INVALID_ARGUMENT (no such device; no chunk is mapped there). */
GPUPOOL_API gpupool_status_t gpupool_sim_hold(int32_t device, gpupool_ptr_t ptr);

/* Counts how often a rule of the device was broken so far: use of unmapped memory, or of another device's
 * without access, races between streams, unmapping what is in use, calls that are illegal during capture.
 * Describes the last one in words in text, as gpupool_report does. out_count may be NULL. */
GPUPOOL_API gpupool_status_t gpupool_sim_faults(int32_t device, uint64_t* out_count, char* text,
                                                size_t capacity);

/* gpupool-api-end */

#ifdef __cplusplus
}
#endif

#endif /* GPUPOOL_GPUPOOL_H */
