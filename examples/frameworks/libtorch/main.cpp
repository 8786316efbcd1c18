// SPDX-License-Identifier: Apache-2.0
// libtorch on a pool, in C++. The library comes from `python -m gpupool.libtorch /opt/libtorch`:
//     g++ -std=c++20 main.cpp -I/opt/libtorch/include -L. -lgpupool_libtorch -L/opt/libtorch/lib -lc10
//     -lc10_cuda
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdio>

extern "C" int gpupool_torch_install();

int main() {
  if (gpupool_torch_install() != 0) return 1;  // before the first tensor on a GPU
  std::printf("%s\n", c10::cuda::CUDACachingAllocator::name().c_str());
}
