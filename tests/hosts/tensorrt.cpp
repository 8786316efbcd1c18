// SPDX-License-Identifier: Apache-2.0
// A host that calls its allocator as TensorRT does: weights without a stream, inferences on streams of their
// own.
#include <gpupool/tensorrt.hpp>

#include "expect.hpp"

namespace {

constexpr std::uint64_t kSize = 1 << 20;

cudaStream_t pointer(gpupool_stream_t stream) {
  return reinterpret_cast<cudaStream_t>(stream);
}

void weights(nvinfer1::IGpuAllocator& memory, gpupool_t* pool, gpupool_stream_t stream) {
  void* first = memory.allocateAsync(kSize, 256, 0, nullptr);
  expect(first != nullptr, "weights have memory");
  work_on(stream, first, kSize);
  expect(memory.deallocateAsync(first, nullptr), "a free without a stream");
  void* second = memory.allocateAsync(kSize, 256, 0, nullptr);
  work_on(0, second, kSize);  // the simulated device sees it if the first free did not wait
  expect(memory.deallocateAsync(second, nullptr), "and another");
  (void)gpupool_synchronize(pool);
}

void inferences(nvinfer1::IGpuAllocator& memory, gpupool_t* pool, gpupool_stream_t stream) {
  void* before = nullptr;
  for (int i = 0; i < 100; ++i) {
    void* scratch = memory.allocateAsync(kSize, 512, 0, pointer(stream));
    expect(scratch != nullptr && block_at(pool, scratch).stream == stream, "scratch is its stream's");
    expect(before == nullptr || scratch == before, "what the stream freed serves it again, without a wait");
    work_on(stream, scratch, kSize);
    expect(memory.deallocateAsync(scratch, pointer(stream)), "a free on the stream");
    before = scratch;
  }
}

}  // namespace

int main() {
  gpupool::TensorRtAllocator memory(0);
  nvinfer1::IGpuAllocator& seen = memory;  // as TensorRT holds it
  gpupool_t* pool = memory.pool();
  gpupool_stream_t stream = 0;
  expect(gpupool_stream_create(pool, &stream) == GPUPOOL_SUCCESS, "there is a stream");
  weights(seen, pool, stream);
  inferences(seen, pool, stream);

  expect(seen.allocateAsync(0, 0, 0, pointer(stream)) == nullptr, "size 0 is null");
  expect(seen.deallocateAsync(nullptr, pointer(stream)), "null may be freed");
  expect(!seen.deallocateAsync(&memory, pointer(stream)), "what is not the pool's is refused");
  expect(seen.allocateAsync(kSize, 0, 0, pointer(2)) == nullptr, "the per-thread default stream is refused");
  void* aligned = seen.allocateAsync(100, 1 << 16, 0, pointer(stream));
  expect(reinterpret_cast<std::uintptr_t>(aligned) % (1 << 16) == 0, "alignment is kept");
  expect(seen.deallocateAsync(aligned, pointer(stream)), "and freed");
  (void)gpupool_set_limit(pool, 8 << 20);
  expect(seen.allocateAsync(64 << 20, 0, 0, pointer(stream)) == nullptr, "a shortage is null");
  (void)gpupool_stream_destroy(pool, stream);
  expect_all_freed(pool);
}
