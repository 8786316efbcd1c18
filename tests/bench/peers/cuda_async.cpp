// SPDX-License-Identifier: Apache-2.0
// The driver's own pool: cudaMallocAsync, from a pool that keeps what it has.
#include "cuda_streams.hpp"
#include "harness.hpp"

namespace {

using gpupool_bench::check_cuda;

class CudaAsync {
 public:
  using Stream = cudaStream_t;

  static std::string label() { return "cuda_async"; }
  static std::string version() {
    int driver = 0;
    check_cuda(cudaDriverGetVersion(&driver));
    return std::to_string(driver / 1000) + '.' + std::to_string(driver % 1000 / 10);
  }

  explicit CudaAsync(uint64_t cap_bytes) {
    check_cuda(cudaSetDevice(0));
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.maxSize = cap_bytes;
    check_cuda(cudaMemPoolCreate(&pool_, &properties));
    uint64_t keep = UINT64_MAX;
    check_cuda(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
  }
  ~CudaAsync() {
    cudaDeviceSynchronize();
    cudaMemPoolDestroy(pool_);
  }
  CudaAsync(const CudaAsync&) = delete;
  CudaAsync& operator=(const CudaAsync&) = delete;

  static void enter_thread() { gpupool_bench::check_cuda(cudaSetDevice(0)); }
  Stream new_stream() { return streams_.add(); }

  uint64_t malloc(uint64_t bytes, Stream stream) {
    void* address = nullptr;
    const cudaError_t error = cudaMallocFromPoolAsync(&address, bytes, pool_, stream);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return 0;
    }
    check_cuda(error);
    return reinterpret_cast<uint64_t>(address);
  }

  void free(uint64_t address, uint64_t, Stream stream) {
    check_cuda(cudaFreeAsync(reinterpret_cast<void*>(address), stream));
  }

  uint64_t reserved_bytes() const { return attribute(cudaMemPoolAttrReservedMemCurrent); }
  uint64_t peak_reserved_bytes() const { return attribute(cudaMemPoolAttrReservedMemHigh); }

 private:
  uint64_t attribute(cudaMemPoolAttr name) const {
    uint64_t value = 0;
    check_cuda(cudaMemPoolGetAttribute(pool_, name, &value));
    return value;
  }

  gpupool_bench::CudaStreams streams_;
  cudaMemPool_t pool_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  return gpupool_bench::bench_main<CudaAsync>(argc, argv);
}
