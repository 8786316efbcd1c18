// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the headers for libraries with an allocator of their own share (onnxruntime.hpp, tensorrt.hpp, ...);
/// of use to an adapter that you write yourself. Needs C++17. All inline over the C functions. Since 0.2.
///
/// Such libraries expect a null pointer where there is no memory, and no exception; why there was none,
/// gpupool_last_error says in the same thread. Any thread may call any function here.
#ifndef GPUPOOL_PLUG_HPP
#define GPUPOOL_PLUG_HPP

#include <gpupool/gpupool.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace gpupool {
inline namespace v0 {
namespace plug {

/// The failure in words, of the last call of this thread.
inline std::string last_error() {
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  (void)gpupool_last_error(&error);
  return std::string("gpupool: ") + error.message;
}

/// The pool that everything in the process shares on this device. Throws std::runtime_error.
inline gpupool_t* default_pool(int device) {
  gpupool_t* pool = nullptr;
  if (gpupool_default_pool(device, &pool) != GPUPOOL_SUCCESS) throw std::runtime_error(last_error());
  return pool;
}

/// The number of a CUstream or cudaStream_t. The legacy default stream is 1 or 0 there.
template <class Stream>
gpupool_stream_t number(Stream* stream) noexcept {
  const auto number = reinterpret_cast<gpupool_stream_t>(stream);
  return number == 1 ? 0 : number;
}

/// Memory for work on a stream; null if there is none, for size 0, and for the per-thread default stream,
/// which is another one in each thread, so its number keeps no order. alignment: 0 or a power of two of up to
/// 2 MiB.
inline void* allocate(gpupool_t* pool, std::uint64_t size, gpupool_stream_t stream,
                      std::uint64_t alignment = 0) noexcept {
  constexpr gpupool_stream_t kPerThread = 2;
  constexpr std::uint64_t kAlways = 512;
  if (stream == kPerThread) return nullptr;
  gpupool_ptr_t ptr = 0;
  const gpupool_status_t status = alignment <= kAlways
                                      ? gpupool_malloc(pool, size, stream, &ptr)
                                      : gpupool_malloc_aligned(pool, size, alignment, stream, &ptr);
  return status == GPUPOOL_SUCCESS ? reinterpret_cast<void*>(ptr) : nullptr;
}

/// Frees in the order of the stream, which may be destroyed afterwards. Never waits for the GPU. False: the
/// pool has no such block.
inline bool release(gpupool_t* pool, void* ptr, gpupool_stream_t stream) noexcept {
  if (gpupool_free(pool, reinterpret_cast<gpupool_ptr_t>(ptr), stream) != GPUPOOL_SUCCESS) return false;
  if (stream != 0) (void)gpupool_park_stream(pool, stream);
  return true;
}

/// A pool for a library that does not say which streams use a block: any may at once, and a free waits for
/// the device, about 100 us, as cudaFree does.
class AnyStream {
 public:
  /// The pool must outlive it. Throws std::runtime_error.
  explicit AnyStream(gpupool_t* pool) : pool_(pool) {
    if (gpupool_stream_create(pool, &own_) != GPUPOOL_SUCCESS) throw std::runtime_error(last_error());
  }
  AnyStream(const AnyStream&) = delete;
  AnyStream& operator=(const AnyStream&) = delete;
  ~AnyStream() { (void)gpupool_stream_destroy(pool_, own_); }

  gpupool_t* pool() const noexcept { return pool_; }
  /// The stream that its blocks are allocated on.
  gpupool_stream_t stream() const noexcept { return own_; }

  /// Waits for work that still uses the memory that it takes. Null as plug::allocate.
  void* allocate(std::uint64_t size, std::uint64_t alignment = 0) noexcept {
    void* ptr = plug::allocate(pool_, size, own_, alignment);
    if (ptr == nullptr || gpupool_stream_synchronize(pool_, own_) == GPUPOOL_SUCCESS) return ptr;
    (void)gpupool_free(pool_, reinterpret_cast<gpupool_ptr_t>(ptr), own_);
    return nullptr;
  }

  /// Waits for all work of the device. False: the pool has no such block.
  bool release(void* ptr) noexcept {
    if (ptr == nullptr) return true;
    (void)gpupool_synchronize(pool_);
    return gpupool_free(pool_, reinterpret_cast<gpupool_ptr_t>(ptr), own_) == GPUPOOL_SUCCESS;
  }

 private:
  gpupool_t* pool_;
  gpupool_stream_t own_ = 0;
};

}  // namespace plug
}  // namespace v0
}  // namespace gpupool

#endif  // GPUPOOL_PLUG_HPP
