/* SPDX-License-Identifier: Apache-2.0 */
/* What the Python layer needs in C besides the library's own functions. cffi reads this file as it is, so it
 * has no preprocessor lines. Include gpupool.h first. Any thread may call any function here, without Python's
 * lock. */

/* A pool with its owners counted: the Pool object until it is closed, its streams, and its blocks below.
 * gpupool_destroy runs when the last owner is gone. So no pool is destroyed while another thread is inside a
 * call on it, and closing a pool, dropping buffers and ending streams may come in any order. */
typedef struct gpupool_py_pool_t {
  gpupool_t* handle;
  uint32_t owners;
  /* How many keep this record: owners, and the Pool object as long as it lives. */
  uint32_t references;
  /* 1: belongs to the process and is never destroyed. */
  uint32_t is_default;
  /* 1: gpupool_destroy has returned. */
  uint32_t is_destroyed;
  /* The process that created it: in a forked child, nobody else will set is_destroyed. */
  int32_t process;
  uint32_t reserved0;
} gpupool_py_pool_t;

/* With one owner and one reference. NULL: the host has no memory. */
gpupool_py_pool_t* gpupool_py_pool_new(gpupool_t* handle, uint32_t is_default);
/* Drops one owner. */
void gpupool_py_pool_drop(gpupool_py_pool_t* pool);
/* Drops one reference. */
void gpupool_py_pool_forget(gpupool_py_pool_t* pool);
/* gpupool_free for a caller that is not an owner: a program may free addresses after it closed their pool.
 * May wait for another thread's gpupool_destroy. */
int32_t gpupool_py_free_late(gpupool_py_pool_t* pool, gpupool_ptr_t ptr, gpupool_stream_t stream);

/* A block that several may hold: the Buffer that owns it, and the tensors and views made of it. It is freed
 * on its stream when the owner has freed it and the last of the others has gone. */
typedef struct gpupool_py_block_t {
  gpupool_py_pool_t* pool;
  gpupool_ptr_t address;
  gpupool_stream_t stream;
  /* How many keep the block from being freed. */
  uint32_t holders;
  /* How many keep this record, and with it the pool: holders, and the Python object. */
  uint32_t references;
  /* 1 until the owner has freed it. */
  uint32_t is_owned;
  uint32_t reserved0;
} gpupool_py_block_t;

/* Takes over a block of the pool. NULL: the host has no memory, and the block is still the caller's. */
gpupool_py_block_t* gpupool_py_block_new(gpupool_py_pool_t* pool, gpupool_ptr_t address,
                                         gpupool_stream_t stream);
/* The owner lets go; a second call does nothing. Returns the status of gpupool_free, if it was called. */
int32_t gpupool_py_block_free(gpupool_py_block_t* block);
/* Adds one holder. Returns 1, or 0 if the block is freed already. */
int32_t gpupool_py_block_hold(gpupool_py_block_t* block);
void gpupool_py_block_release(gpupool_py_block_t* block);
/* The Python object goes. Frees the block if nobody has. */
void gpupool_py_block_forget(gpupool_py_block_t* block);

/* A stream that a pool made, and one of that pool's owners. It is destroyed when it is closed and the last
 * call on it has returned. */
typedef struct gpupool_py_stream_t {
  gpupool_py_pool_t* pool;
  gpupool_stream_t number;
  /* Calls under way, and 1 until it is closed. */
  uint32_t users;
  /* 1 until it is closed. */
  uint32_t is_open;
} gpupool_py_stream_t;

/* Takes over a stream. NULL: the host has no memory, and the stream is still the caller's. */
gpupool_py_stream_t* gpupool_py_stream_new(gpupool_py_pool_t* pool, gpupool_stream_t number);
/* A second call does nothing. Returns the status of gpupool_stream_destroy, if it was called. */
int32_t gpupool_py_stream_close(gpupool_py_stream_t* stream);
/* Adds one call. Returns 1, or 0 if the stream is closed. */
int32_t gpupool_py_stream_hold(gpupool_py_stream_t* stream);
void gpupool_py_stream_release(gpupool_py_stream_t* stream);
/* The Python object goes. */
void gpupool_py_stream_forget(gpupool_py_stream_t* stream);

/* The callbacks that the library gets. Each calls the Python function of its name (on_log, ...) unless the
 * interpreter has gone: then nothing is logged, nothing can be freed, there is no more memory, and nobody
 * refuses a sleep. */
void gpupool_py_call_log(void* user, int32_t level, const char* message);
int32_t gpupool_py_call_oom(void* user, gpupool_t* pool, uint64_t size, uint32_t attempt);
int32_t gpupool_py_call_before(void* user, gpupool_t* pool, gpupool_ptr_t ptr);
int32_t gpupool_py_call_after(void* user, gpupool_t* pool, gpupool_ptr_t ptr);
int32_t gpupool_py_call_malloc(void* user, uint64_t size, gpupool_stream_t stream, gpupool_ptr_t* out_ptr);
void gpupool_py_call_free(void* user, gpupool_ptr_t ptr, uint64_t size, gpupool_stream_t stream);
/* Python's frames of this thread, if it comes from Python: see native/frames.c. */
size_t gpupool_py_call_stack(void* user, char* text, size_t capacity);

/* For CuPy's CFunctionAllocator, in cupy.cpp: memory of a device's default pool for the stream that
 * current_stream, a function intptr_t(void), names. malloc throws C++ exceptions: std::bad_alloc if there is
 * no memory, else std::runtime_error. free frees on the stream that the block was allocated for. */
void* gpupool_py_cupy_malloc(void* current_stream, size_t size, int device);
void gpupool_py_cupy_free(void* current_stream, void* ptr, int device);

/* For ONNX Runtime's options gpu_external_alloc, gpu_external_free and gpu_external_empty_cache, in
 * onnxruntime.cpp: writes the addresses of void*(size_t), void(void*) and void(), which serve a device's
 * default pool. is_ordered 1: all use is on the stream that gpupool_py_ort_stream names; 0: on any stream,
 * and free waits for the device. malloc returns NULL if it fails. Returns 0 if the device has none, else 1.
 */
enum { GPUPOOL_PY_ORT_DEVICES = 64 };
int gpupool_py_ort_functions(int device, int is_ordered, uintptr_t* out_functions);
/* The stream of such a device, created by the first call. Never destroyed. */
gpupool_status_t gpupool_py_ort_stream(int device, gpupool_stream_t* out_stream);

/* The device memory handler of cuStateVec, cuTensorNet and cuDSS, in mem_handler.cpp: writes the addresses of
 * a device's default pool, and of int(void* pool, void** ptr, size_t, void* stream) and
 * int(void* pool, void* ptr, size_t, void* stream). */
gpupool_status_t gpupool_py_mem_handler(int device, uintptr_t* out_functions);
