// SPDX-License-Identifier: Apache-2.0
// What CuPy's CFunctionAllocator calls: see glue.h. It is C++, because CuPy does not look at what malloc
// returns, but turns a C++ exception into a Python one.
#include <gpupool/gpupool.h>

#include <new>
#include <stdexcept>
#include <string>

namespace {

/// A MemoryError in Python, with the library's own words.
class Shortage : public std::bad_alloc {
 public:
  explicit Shortage(const char* text) : text_(text) {}
  const char* what() const noexcept override { return text_.what(); }

 private:
  std::runtime_error text_;
};

void check(gpupool_status_t status) {
  if (status == GPUPOOL_SUCCESS) return;
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  (void)gpupool_last_error(&error);
  if (status == GPUPOOL_ERROR_OUT_OF_MEMORY || status == GPUPOOL_ERROR_OVER_LIMIT)
    throw Shortage(error.message);
  throw std::runtime_error(std::string("gpupool: ") + error.message);
}

/// cudaStreamPerThread: another stream in every thread, so its number cannot keep an order.
constexpr gpupool_stream_t kPerThread = 2;

}  // namespace

extern "C" {

void* gpupool_py_cupy_malloc(void* current_stream, size_t size, int device) {
  const auto stream = static_cast<gpupool_stream_t>(reinterpret_cast<intptr_t (*)()>(current_stream)());
  if (stream == kPerThread) {
    throw std::runtime_error(
        "gpupool cannot serve CuPy's per-thread default stream, which is another one in each thread; use "
        "cupy.cuda.Stream() in each thread, and no CUPY_CUDA_PER_THREAD_DEFAULT_STREAM");
  }
  gpupool_t* pool = nullptr;
  gpupool_ptr_t address = 0;
  check(gpupool_default_pool(device, &pool));
  check(gpupool_malloc(pool, size, stream, &address));
  return reinterpret_cast<void*>(address);
}

void gpupool_py_cupy_free(void*, void* ptr, int device) {
  const auto address = reinterpret_cast<gpupool_ptr_t>(ptr);
  gpupool_t* pool = nullptr;
  gpupool_block_t block{};
  // Frees on the array's own stream, as CuPy's pool does; once that was released, on all that the pool has
  // seen. A forked child finds nothing, and must free nothing.
  if (gpupool_default_pool(device, &pool) != GPUPOOL_SUCCESS) return;
  if (gpupool_block_info(pool, address, &block, sizeof block) != GPUPOOL_SUCCESS) return;
  (void)gpupool_free(pool, address, block.stream);
}

}  // extern "C"
