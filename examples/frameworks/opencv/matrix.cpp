// SPDX-License-Identifier: Apache-2.0
// A matrix of OpenCV in a pool. Needs an OpenCV that was built with CUDA. Link opencv_core, gpupool.
#include <gpupool/opencv.hpp>

#include <cstdio>

int main() {
  static gpupool::OpenCvAllocator memory(0);
  cv::cuda::GpuMat::setDefaultAllocator(&memory);
  const cv::cuda::GpuMat image(1080, 1920, CV_8UC3);
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  (void)gpupool_stats(memory.pool(), &stats);
  std::printf("%llu bytes of the pool, for %d rows\n",
              static_cast<unsigned long long>(stats.all.allocated_bytes.current), image.rows);
}
