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

int32_t bridge_on_oom(void* user, gpupool_t* pool, uint64_t size, uint32_t attempt) {
  (void)pool;
  return gpupoolGoOutOfMemory((uintptr_t)user, size, attempt, &bridge_panic);
}

int32_t bridge_upstream_malloc(void* user, uint64_t size, gpupool_stream_t stream, gpupool_ptr_t* out_ptr) {
  *out_ptr = gpupoolGoUpstreamMalloc((uintptr_t)user, size, stream, &bridge_panic);
  return *out_ptr == 0;
}

void bridge_upstream_free(void* user, gpupool_ptr_t ptr, uint64_t size, gpupool_stream_t stream) {
  gpupoolGoUpstreamFree((uintptr_t)user, ptr, size, stream);
}

void bridge_on_log(void* user, int32_t level, const char* message) {
  (void)user;
  gpupoolGoLog(level, (char*)message);
}
