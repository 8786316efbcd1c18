// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pool as the allocator of OpenCV's cv::cuda::GpuMat, from OpenCV 3.0 on.
///
///     static gpupool::OpenCvAllocator memory(0);              // the default pool of device 0
///     cv::cuda::GpuMat::setDefaultAllocator(&memory);
///
/// Needs C++17. All inline over the C functions. Since 0.2.
#ifndef GPUPOOL_OPENCV_HPP
#define GPUPOOL_OPENCV_HPP

#include <gpupool/plug.hpp>

#include <opencv2/core/cuda.hpp>

#include <optional>

namespace gpupool {
inline namespace v0 {

/// Hands out memory of a pool. It must outlive every GpuMat that has some of it. Any thread may call.
///
/// OpenCV does not say which streams use a matrix: a free waits for the device, as OpenCV's own does, unless
/// the program says that all of them are for one stream. A shortage is OpenCV's own exception.
class OpenCvAllocator final : public cv::cuda::GpuMat::Allocator {
 public:
  /// The pool that everything in the process shares on this device. Throws std::runtime_error.
  explicit OpenCvAllocator(int device) : OpenCvAllocator(plug::default_pool(device)) {}
  /// A pool, which must outlive it. Throws std::runtime_error.
  explicit OpenCvAllocator(gpupool_t* pool) : any_(pool) {}
  /// Only for matrices that this stream alone uses (a cudaStream_t): nothing waits.
  OpenCvAllocator(gpupool_t* pool, void* stream)
      : any_(pool), stream_(plug::number(static_cast<char*>(stream))) {}

  gpupool_t* pool() const noexcept { return any_.pool(); }

  /// The rows of a matrix begin at multiples of 512 bytes, as cudaMallocPitch lays them.
  bool allocate(cv::cuda::GpuMat* mat, int rows, int cols, std::size_t element_bytes) override {
    constexpr std::size_t kPitch = 512;
    std::size_t step = element_bytes * static_cast<std::size_t>(cols);
    if (rows > 1 && cols > 1) step = (step + kPitch - 1) / kPitch * kPitch;
    const std::size_t size = step * static_cast<std::size_t>(rows);
    void* data = stream_ ? plug::allocate(pool(), size, *stream_) : any_.allocate(size);
    if (data == nullptr) return false;
    mat->data = static_cast<uchar*>(data);
    mat->step = step;
    mat->refcount = static_cast<int*>(cv::fastMalloc(sizeof(int)));
    return true;
  }

  void free(cv::cuda::GpuMat* mat) override {
    if (stream_) {
      (void)plug::release(pool(), mat->datastart, *stream_);
    } else {
      (void)any_.release(mat->datastart);
    }
    cv::fastFree(mat->refcount);
  }

 private:
  plug::AnyStream any_;
  std::optional<gpupool_stream_t> stream_;
};

}  // namespace v0
}  // namespace gpupool

#endif  // GPUPOOL_OPENCV_HPP
