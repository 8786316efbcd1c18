// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pool as a memory resource of CUDA's own C++ libraries (cuda::mr): for RMM from 26.06 on, hence cuDF,
/// cuML and others, and for everything else that takes a cuda::mr::resource.
///
///     rmm::mr::set_current_device_resource(gpupool::PoolResource::of_device(0));
///
/// Needs C++17 and CCCL 3.1, which comes with CUDA 13.1 and with RMM. All inline over the C functions.
#ifndef GPUPOOL_CUDA_MR_HPP
#define GPUPOOL_CUDA_MR_HPP

#include <gpupool/gpupool.h>

#include <cuda/memory_resource>
#include <cuda/stream_ref>

#if CCCL_VERSION < 3001000
#error "gpupool/cuda_mr.hpp needs CCCL 3.1"
#endif

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>

namespace gpupool {
inline namespace v0 {

/// The pool has no memory: a std::bad_alloc that says where the memory is.
class PoolBadAlloc : public std::bad_alloc {
 public:
  explicit PoolBadAlloc(const char* text) : text_(text) {}
  const char* what() const noexcept override { return text_.what(); }

 private:
  std::runtime_error text_;
};

/// Hands out device memory of a pool, which must outlive it. Copies are the same resource. Every function may
/// be called from any thread.
///
/// Throws PoolBadAlloc if there is no memory, std::invalid_argument for the per-thread default stream (each
/// thread has another one), and std::runtime_error for other failures.
class PoolResource {
 public:
  explicit PoolResource(gpupool_t* pool) noexcept : pool_(pool) {}

  /// The pool that everything in the process shares on this device.
  static PoolResource of_device(int device) {
    gpupool_t* pool = nullptr;
    check(gpupool_default_pool(device, &pool));
    return PoolResource(pool);
  }

  gpupool_t* pool() const noexcept { return pool_; }

  /// Allocates for work on stream. alignment: a power of two of up to 2 MiB.
  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment = kAlignment) {
    return malloc_for(number(stream), bytes, alignment);
  }

  /// Frees in stream order. Never waits for the GPU. The stream may be destroyed afterwards.
  void deallocate(cuda::stream_ref stream, void* ptr, std::size_t, std::size_t = kAlignment) noexcept {
    const gpupool_stream_t known = unchecked_number(stream);
    (void)gpupool_free(pool_, address(ptr), known);
    if (known != 0) (void)gpupool_park_stream(pool_, known);
  }

  /// Allocates memory that any stream may use at once; waits for the legacy default stream.
  void* allocate_sync(std::size_t bytes, std::size_t alignment = kAlignment) {
    void* ptr = malloc_for(0, bytes, alignment);
    const gpupool_status_t status = gpupool_stream_synchronize(pool_, 0);
    if (status != GPUPOOL_SUCCESS) {
      (void)gpupool_free(pool_, address(ptr), 0);
      check(status);
    }
    return ptr;
  }

  /// The pool hands the memory out again when all streams that it has seen have passed. Never waits for the
  /// GPU.
  void deallocate_sync(void* ptr, std::size_t, std::size_t = kAlignment) noexcept {
    (void)gpupool_free(pool_, address(ptr), GPUPOOL_STREAM_UNKNOWN);
  }

  friend bool operator==(const PoolResource& a, const PoolResource& b) noexcept { return a.pool_ == b.pool_; }
  friend bool operator!=(const PoolResource& a, const PoolResource& b) noexcept { return a.pool_ != b.pool_; }
  friend constexpr void get_property(const PoolResource&, cuda::mr::device_accessible) noexcept {}

 private:
  static constexpr std::size_t kAlignment = 512;

  static gpupool_ptr_t address(void* ptr) noexcept { return reinterpret_cast<gpupool_ptr_t>(ptr); }

  /// The legacy default stream is 1 or 0 there.
  static gpupool_stream_t unchecked_number(cuda::stream_ref stream) noexcept {
    const auto number = reinterpret_cast<gpupool_stream_t>(stream.get());
    return number == 1 ? 0 : number;
  }

  static gpupool_stream_t number(cuda::stream_ref stream) {
    constexpr gpupool_stream_t kPerThread = 2;
    const gpupool_stream_t known = unchecked_number(stream);
    if (known == kPerThread) {
      throw std::invalid_argument(
          "gpupool cannot serve the per-thread default stream: create one for each thread");
    }
    return known;
  }

  static void check(gpupool_status_t status) {
    if (status == GPUPOOL_SUCCESS) return;
    gpupool_error_t error{};
    error.struct_size = sizeof error;
    (void)gpupool_last_error(&error);
    if (status == GPUPOOL_ERROR_OUT_OF_MEMORY || status == GPUPOOL_ERROR_OVER_LIMIT)
      throw PoolBadAlloc(error.message);
    throw std::runtime_error(std::string("gpupool: ") + error.message);
  }

  void* malloc_for(gpupool_stream_t stream, std::size_t bytes, std::size_t alignment) {
    gpupool_ptr_t ptr = 0;
    check(alignment <= kAlignment ? gpupool_malloc(pool_, bytes, stream, &ptr)
                                  : gpupool_malloc_aligned(pool_, bytes, alignment, stream, &ptr));
    return reinterpret_cast<void*>(ptr);
  }

  gpupool_t* pool_;
};

static_assert(cuda::mr::resource_with<PoolResource, cuda::mr::device_accessible>,
              "it is a cuda::mr::resource");

}  // namespace v0
}  // namespace gpupool

#endif  // GPUPOOL_CUDA_MR_HPP
