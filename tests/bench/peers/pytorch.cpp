// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching allocator, through its C++ interface: no tensor, no Python. PYTORCH_ALLOC_CONF in the
// environment configures it as it does any program. PEER_VERSION is given when this is compiled.
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdlib>

#include "cuda_streams.hpp"
#include "harness.hpp"

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

class Pytorch {
 public:
  using Stream = cudaStream_t;

  static std::string label() {
    const char* const configuration = std::getenv("PYTORCH_ALLOC_CONF");
    const bool is_expandable =
        configuration != nullptr && std::string(configuration).find("expandable_segments:True") == 0;
    return is_expandable ? "pytorch_expandable" : "pytorch";
  }
  static std::string version() { return PEER_VERSION; }

  explicit Pytorch(uint64_t cap_bytes) {
    static const bool is_ready = [] {
      allocator::init(1);
      return true;
    }();
    size_t free = 0;
    size_t total = 0;
    gpupool_bench::check_cuda(cudaMemGetInfo(&free, &total));
    const bool has_cap = is_ready && cap_bytes != 0;
    const double fraction = has_cap ? static_cast<double>(cap_bytes) / static_cast<double>(total) : 1.0;
    allocator::emptyCache();
    allocator::setMemoryFraction(fraction, 0);
    allocator::resetPeakStats(0);
  }

  static void enter_thread() { gpupool_bench::check_cuda(cudaSetDevice(0)); }

  /// Streams are never destroyed, as PyTorch's own are not: it waits for a segment's stream when it unmaps
  /// it.
  Stream new_stream() {
    static gpupool_bench::CudaStreams& streams = *new gpupool_bench::CudaStreams;
    static std::vector<Stream> known;
    if (used_streams_ == known.size()) known.push_back(streams.add());
    return known[used_streams_++];
  }

  uint64_t malloc(uint64_t bytes, Stream stream) {
    try {
      return reinterpret_cast<uint64_t>(allocator::raw_alloc_with_stream(bytes, stream));
    } catch (const c10::OutOfMemoryError&) {
      return 0;
    }
  }

  void free(uint64_t address, uint64_t, Stream) { allocator::raw_delete(reinterpret_cast<void*>(address)); }

  uint64_t reserved_bytes() const { return static_cast<uint64_t>(reserved().current); }
  uint64_t peak_reserved_bytes() const { return static_cast<uint64_t>(reserved().peak); }

 private:
  static c10::CachingAllocator::Stat reserved() {
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return allocator::getDeviceStats(0).reserved_bytes[kAll];
  }

  size_t used_streams_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  return gpupool_bench::bench_main<Pytorch>(argc, argv);
}
