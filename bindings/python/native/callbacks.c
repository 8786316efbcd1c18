/* SPDX-License-Identifier: Apache-2.0 */
/* Between the library's callbacks and the functions of Python: see glue.h. The library may call at any time,
 * even after the interpreter has gone, when nothing of Python can be used. */
#include <Python.h>
#include <gpupool/gpupool.h>

#include "glue.h"

/* Written by cffi. */
void gpupool_py_on_log(void* user, int32_t level, const char* message);
int32_t gpupool_py_on_oom(void* user, gpupool_t* pool, uint64_t size, uint32_t attempt);
int32_t gpupool_py_on_before(void* user, gpupool_t* pool, gpupool_ptr_t ptr);
int32_t gpupool_py_on_after(void* user, gpupool_t* pool, gpupool_ptr_t ptr);
int32_t gpupool_py_on_malloc(void* user, uint64_t size, gpupool_stream_t stream, gpupool_ptr_t* out_ptr);
void gpupool_py_on_free(void* user, gpupool_ptr_t ptr, uint64_t size, gpupool_stream_t stream);

void gpupool_py_call_log(void* user, int32_t level, const char* message) {
  if (Py_IsInitialized()) gpupool_py_on_log(user, level, message);
}

int32_t gpupool_py_call_oom(void* user, gpupool_t* pool, uint64_t size, uint32_t attempt) {
  return Py_IsInitialized() ? gpupool_py_on_oom(user, pool, size, attempt) : 0;
}

int32_t gpupool_py_call_before(void* user, gpupool_t* pool, gpupool_ptr_t ptr) {
  return Py_IsInitialized() ? gpupool_py_on_before(user, pool, ptr) : 1;
}

int32_t gpupool_py_call_after(void* user, gpupool_t* pool, gpupool_ptr_t ptr) {
  return Py_IsInitialized() ? gpupool_py_on_after(user, pool, ptr) : 1;
}

int32_t gpupool_py_call_malloc(void* user, uint64_t size, gpupool_stream_t stream, gpupool_ptr_t* out_ptr) {
  return Py_IsInitialized() ? gpupool_py_on_malloc(user, size, stream, out_ptr) : 1;
}

void gpupool_py_call_free(void* user, gpupool_ptr_t ptr, uint64_t size, gpupool_stream_t stream) {
  if (Py_IsInitialized()) gpupool_py_on_free(user, ptr, size, stream);
}
