/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool/torch.h: functions that PyTorch calls through function pointers, in libgpupool_torch.
 *
 * Their signatures are PyTorch's, not ours, and some are C++ at heart: they throw, or get a std::function.
 * All serve from gpupool_default_pool(device), so that
 * everything in a process shares one pool a device. Programs that call the pool themselves need gpupool.h
 * only, and libgpupool.
 *
 * Any thread may call any of them at any time. None but the ones that say so throws. PyTorch copies between
 * devices without telling a pluggable allocator, so from the second device on that these functions serve, the
 * devices may use each other's memory wherever they can reach it. What PyTorch's own allocator serves beside
 * them is not known here: call gpupool_enable_peer on the pool for devices that copy to or from such memory.
 *
 * Available since version 0.2; in 0.1, libgpupool itself had them, and gpupool/frameworks.h.
 */
#ifndef GPUPOOL_TORCH_H
#define GPUPOOL_TORCH_H

#include <gpupool/gpupool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- PyTorch: torch.cuda.memory.CUDAPluggableAllocator ------------------------------------------- */

/* Its alloc: size bytes for work on stream, a cudaStream_t. NULL for size 0, and where there is no memory;
 * the reason is in gpupool_last_error. As the allocator behind a torch.cuda.MemPool, NULL is what PyTorch
 * expects; as the current allocator it is not checked, so give it gpupool_torch_alloc_or_throw there. */
GPUPOOL_API void* gpupool_torch_alloc(size_t size, int device, void* stream);

/* The same, but throws a C++ exception of type std::runtime_error, whose text is gpupool_torch_explain's:
 * PyTorch turns it into a RuntimeError. Call it from C++ only. */
GPUPOOL_API void* gpupool_torch_alloc_or_throw(size_t size, int device, void* stream);

/* Its free: stream is the one that alloc got. size is not used. A pointer that is not live changes nothing;
 * gpupool_last_error tells. What the host has no memory for is done by a later call. */
GPUPOOL_API void gpupool_torch_free(void* ptr, size_t size, int device, void* stream);

/* Why this thread's last gpupool_torch_alloc(size, device) gave NULL, in the form of PyTorch's own message,
 * with where the memory is. Writes at most capacity bytes with a terminating zero. Returns 1 for a shortage
 * of memory on the device, and 0 for other failures. */
GPUPOOL_API int gpupool_torch_explain(size_t size, int device, char* text, size_t capacity);

/* set_record_stream_fn: stream uses the block too. Without this hook, Tensor.record_stream does nothing.
 * Throws std::runtime_error if the host has no memory to note it: the block could be reused too early. */
GPUPOOL_API void gpupool_torch_record_stream(void* ptr, void* stream);

/* set_reset_fn, which torch.cuda.empty_cache calls: gives the cached memory of every device back. May wait
 * for the GPU. */
GPUPOOL_API void gpupool_torch_reset(void);

/* set_memory_fraction_fn: limits what the device's pools hold to a fraction of its memory, in [0, 1]. Throws
 * std::runtime_error if live blocks hold more already. */
GPUPOOL_API void gpupool_torch_memory_fraction(double fraction, int device);

/* set_init_fn. Throws std::runtime_error if the pools would not be CUDA's (GPUPOOL_BACKEND=sim), or if
 * GPUPOOL_LIMIT is more than the first device has. */
GPUPOOL_API void gpupool_torch_init(int device_count);

/* set_base_alloc_fn: the start of the block that ptr points into and, where size is not NULL, its bytes. ptr
 * itself and 0 if it is in no live block. */
GPUPOOL_API void* gpupool_torch_base_alloc(void* ptr, size_t* size);

/* ---- PyTorch: pools of its graphs, and torch.cuda.MemPool ------------------------------------------ */

/* PyTorch's MempoolId_t, passed as std::pair<uint64_t, uint64_t> is. */
typedef struct gpupool_torch_mempool_t {
  uint64_t first;
  uint64_t second;
} gpupool_torch_mempool_t;

/* set_begin_allocate_to_pool: from now on, what is allocated on device for streams that the filter accepts
 * comes from a pool of its own, which is made at its first use, gets one more user, and shares the limit of
 * the default pool. filter is the address of a std::function<bool(cudaStream_t)> of libstdc++, which is
 * copied: what a C++ caller passes where its signature has the function by value. NULL accepts every stream.
 * Throws std::runtime_error if the pool cannot be made. */
GPUPOOL_API void gpupool_torch_begin_allocate_to_pool(int device, gpupool_torch_mempool_t id,
                                                      const void* filter);

/* set_end_allocate_to_pool_fn: ends what the last begin with this id started. */
GPUPOOL_API void gpupool_torch_end_allocate_to_pool(int device, gpupool_torch_mempool_t id);

/* set_release_pool: takes one user away; without users, the pool gives its memory back, that of live blocks
 * with the last of them. Waits for the streams that the device's default pool has seen, since a graph that
 * was deleted may still run there; while a capture is under way, all of this happens after its end. */
GPUPOOL_API void gpupool_torch_release_pool(int device, gpupool_torch_mempool_t id);

/* Adds a user without routing to the pool, which is made if need be. Throws as begin does. */
GPUPOOL_API void gpupool_torch_retain_pool(int device, gpupool_torch_mempool_t id);

/* How many users the pool has; 0 if there is none. */
GPUPOOL_API int gpupool_torch_pool_use_count(int device, gpupool_torch_mempool_t id);

/* Lists the pools of a device that PyTorch's memory is in: its default pool first, whose id is zero, if it
 * was used, then those of graphs. Writes at most capacity of each and returns how many there are. ids may be
 * NULL. A pool may be destroyed by another thread at any time; calls on it then give INVALID_ARGUMENT. */
GPUPOOL_API size_t gpupool_torch_pools(int device, gpupool_t** pools, gpupool_torch_mempool_t* ids,
                                       size_t capacity);

/* The limit of all these pools together, in bytes; 0: none. */
GPUPOOL_API uint64_t gpupool_torch_limit(int device);

/* ---- PyTorch: memory that sleeps by tag ------------------------------------------------------------ */

/* Of an allocator behind a torch.cuda.MemPool. */
typedef void* (*gpupool_torch_alloc_fn_t)(size_t size, int device, void* stream);
typedef void (*gpupool_torch_free_fn_t)(void* ptr, size_t size, int device, void* stream);

/* Writes the functions of an allocator whose memory belongs to a tag: on each device, a child of the default
 * pool, made at its first use, with the tag as its name (gpupool_sleep_tag). With keep not 0, what alloc
 * gives is saved even by a sleep that drops (gpupool_set_keep). The same tag and keep have the same
 * functions. alloc gives NULL for size 0 and where memory is short, and throws std::runtime_error for all
 * else, that the pool sleeps among it. free gives the memory back to the device at once, and may wait for the
 * GPU. Errors: INVALID_ARGUMENT (tag is NULL, "", or longer than 63 bytes), UNAVAILABLE (the process has 64
 * tags), HOST_OUT_OF_MEMORY. */
GPUPOOL_API gpupool_status_t gpupool_torch_tag(const char* tag, int keep, gpupool_torch_alloc_fn_t* alloc,
                                               gpupool_torch_free_fn_t* free);

/* Lists the pools of a tag, NULL: of all, on all devices. Writes at most capacity and returns how many there
 * are. They live as long as the process. */
GPUPOOL_API size_t gpupool_torch_tag_pools(const char* tag, gpupool_t** pools, size_t capacity);

/* From now on, no tag's alloc leaves less than this free on its device: it gives NULL instead. 0: none. */
GPUPOOL_API void gpupool_torch_tag_margin(uint64_t bytes);

/* How many bytes of a device's tags are asleep. */
GPUPOOL_API uint64_t gpupool_torch_asleep_bytes(int device);

#ifdef __cplusplus
}
#endif

#endif /* GPUPOOL_TORCH_H */
