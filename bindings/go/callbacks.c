// SPDX-License-Identifier: Apache-2.0
// From the library to Go. What a callback gets as user is a number for Go, which must never see it as a
// pointer: its runtime refuses pointers that lead nowhere.
#include "_cgo_export.h"
#include "bridge.h"

bridge_failure bridge_no_memory = {
    .details =
        {
            .struct_size = sizeof(gpupool_error_t),
            .status = GPUPOOL_ERROR_HOST_OUT_OF_MEMORY,
            .message = "the host has no memory to tell what went wrong",
        },
};

_Thread_local uintptr_t bridge_panic;
_Thread_local uint32_t bridge_mallocs;

/* A callback may call the library, where it is another call that panics: it begins with none, and its own
 * joins what earlier callbacks of the same call have left. */
static uintptr_t enter_callback(void) {
  const uintptr_t panic = bridge_panic;
  bridge_panic = 0;
  return panic;
}

int32_t bridge_on_oom(void* user, gpupool_t* pool, uint64_t size, uint32_t attempt) {
  (void)pool;
  uintptr_t panic = enter_callback();
  const int32_t answer = gpupoolGoOutOfMemory((uintptr_t)user, size, attempt, &panic);
  bridge_panic = panic;
  return answer;
}

static int32_t ask_hook(void* user, gpupool_ptr_t ptr, int32_t is_after) {
  uintptr_t panic = enter_callback();
  const int32_t answer = gpupoolGoSleepHook((uintptr_t)user, ptr, is_after, &panic);
  bridge_panic = panic;
  return answer;
}

int32_t bridge_before_release(void* user, gpupool_t* pool, gpupool_ptr_t ptr) {
  (void)pool;
  return ask_hook(user, ptr, 0);
}

int32_t bridge_after_map(void* user, gpupool_t* pool, gpupool_ptr_t ptr) {
  (void)pool;
  return ask_hook(user, ptr, 1);
}

int32_t bridge_upstream_malloc(void* user, uint64_t size, gpupool_stream_t stream, gpupool_ptr_t* out_ptr) {
  uintptr_t panic = enter_callback();
  *out_ptr = gpupoolGoUpstreamMalloc((uintptr_t)user, size, stream, &panic);
  bridge_panic = panic;
  return *out_ptr == 0;
}

void bridge_upstream_free(void* user, gpupool_ptr_t ptr, uint64_t size, gpupool_stream_t stream) {
  const uintptr_t panic = enter_callback();
  gpupoolGoUpstreamFree((uintptr_t)user, ptr, size, stream);
  bridge_panic = panic;
}

void bridge_on_log(void* user, int32_t level, const char* message) {
  (void)user;
  gpupoolGoLog(level, (char*)message);
}

/* A malloc by code that Go has not called would make Go a place on this thread, to find nothing there. */
size_t bridge_on_stack(void* user, char* text, size_t capacity) {
  (void)user;
  return bridge_mallocs == 0 ? 0 : gpupoolGoStack(text, capacity);
}
