// SPDX-License-Identifier: Apache-2.0
// RMM on a pool, through gpupool/cuda_mr.hpp. test_others.py builds and runs it.
#include <gpupool/cuda_mr.hpp>

#include <cuda_runtime_api.h>
#include <cstdio>
#include <cstdlib>
#include <rmm/cuda_stream.hpp>
#include <rmm/device_buffer.hpp>
#include <rmm/mr/per_device_resource.hpp>

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

void expect(bool is_right, const char* what) {
  if (is_right) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

gpupool_block_t block_at(gpupool_t* pool, const void* ptr) {
  gpupool_block_t block{};
  (void)gpupool_block_info(pool, reinterpret_cast<gpupool_ptr_t>(ptr), &block, sizeof block);
  return block;
}

}  // namespace

int main() {
  auto resource = gpupool::PoolResource::of_device(0);
  gpupool_t* pool = resource.pool();
  rmm::mr::set_current_device_resource(resource);
  {
    const rmm::cuda_stream stream;
    const rmm::device_buffer buffer(10 * kMiB, stream);
    expect(block_at(pool, buffer.data()).requested_bytes == 10 * kMiB, "a buffer is the pool's");
    expect(block_at(pool, buffer.data()).stream == reinterpret_cast<gpupool_stream_t>(stream.value()),
           "it belongs to its stream");
    const rmm::device_buffer copy(buffer, stream);
    expect(copy.data() != buffer.data(), "a copy is another block");
    stream.synchronize();
  }
  (void)gpupool_set_limit(pool, 64 * kMiB);
  bool is_refused = false;
  try {
    const rmm::device_buffer large(100 * kMiB, cuda::stream_ref(cudaStream_t{}));
  } catch (const std::bad_alloc& error) {
    is_refused = true;
  }
  expect(is_refused, "a shortage is a std::bad_alloc");
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  (void)gpupool_stats(pool, &stats);
  expect(stats.all.allocated_bytes.current == 0, "everything was freed");
  void* block = resource.allocate_sync(kMiB, 4096);
  expect(reinterpret_cast<std::uintptr_t>(block) % 4096 == 0, "alignment is kept");
  resource.deallocate_sync(block, kMiB);
}
