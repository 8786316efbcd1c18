// SPDX-License-Identifier: Apache-2.0
// The device memory handlers of NVIDIA's headers, called as their comments say that the libraries do.
#include <cudss.h>
#include <custatevec.h>
#include <cutensornet.h>

#include <gpupool/mem_handler.hpp>

#include <string>

#include "expect.hpp"

namespace {

constexpr std::size_t kSize = 1 << 20;

template <class Handler>
void call(gpupool_t* pool, gpupool_stream_t number) {
  const auto handler = gpupool::mem_handler<Handler>(pool);
  auto* const stream = reinterpret_cast<cudaStream_t>(number);
  expect(std::string(handler.name) == "gpupool", "it has a name");
  void* before = nullptr;
  for (int i = 0; i < 10; ++i) {
    void* ptr = nullptr;
    expect(handler.device_alloc(handler.ctx, &ptr, kSize, stream) == 0, "there is memory");
    expect(reinterpret_cast<std::uintptr_t>(ptr) % 256 == 0, "it is aligned");
    expect(block_at(pool, ptr).stream == number, "it is the stream's");
    expect(before == nullptr || ptr == before, "what the stream freed serves it again, without a wait");
    work_on(number, ptr, kSize);
    expect(handler.device_free(handler.ctx, ptr, kSize, stream) == 0, "it is freed");
    before = ptr;
  }
  void* ptr = nullptr;
  expect(handler.device_alloc(handler.ctx, &ptr, std::size_t{1} << 40, stream) != 0,
         "a shortage is an error");
  expect(handler.device_alloc(handler.ctx, &ptr, kSize, cudaStreamPerThread) != 0, "and so is that stream");
  expect(handler.device_free(handler.ctx, &before, kSize, stream) != 0, "and what is not the pool's");
}

}  // namespace

int main() {
  gpupool_t* pool = gpupool::plug::default_pool(0);
  gpupool_stream_t stream = 0;
  expect(gpupool_stream_create(pool, &stream) == GPUPOOL_SUCCESS, "there is a stream");
  call<custatevecDeviceMemHandler_t>(pool, stream);
  call<cutensornetDeviceMemHandler_t>(pool, stream);
  call<cudssDeviceMemHandler_t>(pool, stream);
  (void)gpupool_stream_destroy(pool, stream);
  expect_all_freed(pool);
}
