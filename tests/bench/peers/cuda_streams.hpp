// SPDX-License-Identifier: Apache-2.0
// Streams of the CUDA runtime that end with their owner.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace gpupool_bench {

inline void check_cuda(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

class CudaStreams {
 public:
  CudaStreams() = default;
  ~CudaStreams() {
    for (const cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }
  CudaStreams(const CudaStreams&) = delete;
  CudaStreams& operator=(const CudaStreams&) = delete;

  cudaStream_t add() {
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    streams_.push_back(stream);
    return stream;
  }

 private:
  std::vector<cudaStream_t> streams_;
};

}  // namespace gpupool_bench
