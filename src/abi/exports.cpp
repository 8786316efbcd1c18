// SPDX-License-Identifier: Apache-2.0
// Memory between processes.
#include <cstring>
#include <string>

#include "abi/call.hpp"

using namespace gpupool::internal;       // NOLINT: the C functions are a thin layer over these
using namespace gpupool::internal::abi;  // NOLINT

extern "C" {

gpupool_status_t gpupool_export(gpupool_t* pool, gpupool_ptr_t ptr, char* handle, size_t capacity) {
  if (handle == nullptr) return refuse_null("handle");
  if (capacity != 0) *handle = '\0';
  if (capacity < GPUPOOL_EXPORT_BYTES) {
    return fail(kInvalid, "capacity is %zu, less than GPUPOOL_EXPORT_BYTES, %d", capacity,
                GPUPOOL_EXPORT_BYTES);
  }
  return on_pool(pool, [&](Pool& self) {
    std::string text;
    const Status status = self.export_block(ptr, text);
    if (status == kSuccess) std::memcpy(handle, text.c_str(), text.size() + 1);
    return status;
  });
}

gpupool_status_t gpupool_import(gpupool_t* pool, const char* handle, gpupool_ptr_t* out_ptr,
                                uint64_t* out_size) {
  if (out_ptr != nullptr) *out_ptr = 0;
  if (out_size != nullptr) *out_size = 0;
  if (handle == nullptr) return refuse_null("handle");
  if (out_ptr == nullptr) return refuse_null("out_ptr");
  if (out_size == nullptr) return refuse_null("out_size");
  return on_pool(pool, [&](Pool& self) { return self.import_block(handle, *out_ptr, *out_size); });
}

gpupool_status_t gpupool_import_close(gpupool_t* pool, gpupool_ptr_t ptr) {
  return call(pool, &Pool::close_import, ptr);
}

}  // extern "C"
