// SPDX-License-Identifier: Apache-2.0
// RMM's pool, or with -DRMM_ARENA its arena, over cudaMalloc.
#include <rmm/error.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/version_config.hpp>

#include "cuda_streams.hpp"
#include "harness.hpp"

namespace {

using Upstream = rmm::mr::cuda_memory_resource;
using Cap = std::optional<size_t>;

#ifdef RMM_ARENA
using Resource = rmm::mr::arena_memory_resource;
constexpr const char* kLabel = "rmm_arena";
Resource make_resource(Cap cap) {
  return Resource(Upstream{}, cap);
}
/// The arena takes all that it may use when it is created, and does not tell what it uses of it.
uint64_t reserved_by(const Resource&) {
  return 0;
}
#else
using Resource = rmm::mr::pool_memory_resource;
constexpr const char* kLabel = "rmm_pool";
Resource make_resource(Cap cap) {
  return Resource(Upstream{}, 0, cap);
}
/// Never shrinks, so that it is its own peak.
uint64_t reserved_by(const Resource& resource) {
  return resource.pool_size();
}
#endif

constexpr size_t kAlignment = 256;

class Rmm {
 public:
  using Stream = cudaStream_t;

  static std::string label() { return kLabel; }
  static std::string version() { return RMM_VERSION; }

  explicit Rmm(uint64_t cap_bytes)
      : resource_(make_resource(cap_bytes == 0 ? Cap() : Cap(cap_bytes / kAlignment * kAlignment))) {}

  static void enter_thread() { gpupool_bench::check_cuda(cudaSetDevice(0)); }
  Stream new_stream() { return streams_.add(); }

  uint64_t malloc(uint64_t bytes, Stream stream) {
    try {
      return reinterpret_cast<uint64_t>(resource_.allocate(cuda::stream_ref(stream), bytes, kAlignment));
    } catch (const rmm::out_of_memory&) {
      return 0;
    }
  }

  void free(uint64_t address, uint64_t bytes, Stream stream) {
    resource_.deallocate(cuda::stream_ref(stream), reinterpret_cast<void*>(address), bytes, kAlignment);
  }

  uint64_t reserved_bytes() const { return reserved_by(resource_); }
  uint64_t peak_reserved_bytes() const { return reserved_by(resource_); }

 private:
  gpupool_bench::CudaStreams streams_;
  Resource resource_;
};

}  // namespace

int main(int argc, char** argv) {
  return gpupool_bench::bench_main<Rmm>(argc, argv);
}
