// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pool as a memory provider of the Unified Memory Framework (oneAPI), version 1.
///
///     umfMemoryProviderCreate(gpupool::umf_provider_ops(), pool, &provider);
///
/// Needs C++17. All inline over the C functions. Since 0.2.
#ifndef GPUPOOL_UMF_HPP
#define GPUPOOL_UMF_HPP

#include <gpupool/plug.hpp>

#include <umf/memory_provider_ops.h>

#include <new>

namespace gpupool {
inline namespace v0 {

/// The operations of a provider whose parameter is a gpupool_t*, which must outlive it. Any thread may call.
/// UMF names no stream: memory is any stream's at once, and a free waits for the device (plug::AnyStream), so
/// put one of UMF's pools on top, which keeps what is freed. A shortage is
/// UMF_RESULT_ERROR_MEMORY_PROVIDER_SPECIFIC, with the pool's own words as its native error.
inline const umf_memory_provider_ops_t* umf_provider_ops() {
  static const umf_memory_provider_ops_t ops = [] {
    umf_memory_provider_ops_t all{};
    all.version = UMF_PROVIDER_OPS_VERSION_CURRENT;
    all.initialize = [](const void* pool, void** provider) {
      if (pool == nullptr) return UMF_RESULT_ERROR_INVALID_ARGUMENT;
      try {
        *provider = new plug::AnyStream(static_cast<gpupool_t*>(const_cast<void*>(pool)));
      } catch (const std::bad_alloc&) {
        return UMF_RESULT_ERROR_OUT_OF_HOST_MEMORY;
      } catch (const std::runtime_error&) {
        return UMF_RESULT_ERROR_MEMORY_PROVIDER_SPECIFIC;
      }
      return UMF_RESULT_SUCCESS;
    };
    all.finalize = [](void* provider) {
      delete static_cast<plug::AnyStream*>(provider);
      return UMF_RESULT_SUCCESS;
    };
    all.alloc = [](void* provider, std::size_t size, std::size_t alignment, void** ptr) {
      *ptr = static_cast<plug::AnyStream*>(provider)->allocate(size, alignment);
      return *ptr != nullptr || size == 0 ? UMF_RESULT_SUCCESS : UMF_RESULT_ERROR_MEMORY_PROVIDER_SPECIFIC;
    };
    all.free = [](void* provider, void* ptr, std::size_t) {
      return static_cast<plug::AnyStream*>(provider)->release(ptr) ? UMF_RESULT_SUCCESS
                                                                   : UMF_RESULT_ERROR_INVALID_ARGUMENT;
    };
    all.get_last_native_error = [](void*, const char** message, std::int32_t* code) {
      thread_local gpupool_error_t error;
      error.struct_size = sizeof error;
      (void)gpupool_last_error(&error);
      if (message != nullptr) *message = error.message;
      if (code != nullptr) *code = error.status;
      return UMF_RESULT_SUCCESS;
    };
    all.get_recommended_page_size = [](void*, std::size_t, std::size_t* bytes) {
      *bytes = std::size_t{2} << 20;
      return UMF_RESULT_SUCCESS;
    };
    all.get_min_page_size = [](void*, const void*, std::size_t* bytes) {
      *bytes = 512;
      return UMF_RESULT_SUCCESS;
    };
    all.get_name = [](void*, const char** name) {
      *name = "gpupool";
      return UMF_RESULT_SUCCESS;
    };
#if UMF_PROVIDER_OPS_VERSION_CURRENT >= UMF_MAKE_VERSION(1, 2)
    all.get_cache_line_size = [](void*, std::size_t* bytes) {
      *bytes = 128;  // of the GPU's second cache
      return UMF_RESULT_SUCCESS;
    };
#endif
    return all;
  }();
  return &ops;
}

}  // namespace v0
}  // namespace gpupool

#endif  // GPUPOOL_UMF_HPP
