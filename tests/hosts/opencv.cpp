// SPDX-License-Identifier: Apache-2.0
// OpenCV's GpuMat, as Debian's header has it, on a pool. Debian's library has no CUDA, so the few functions
// of OpenCV that a matrix needs are here, in the order in which OpenCV calls its allocator.
#include <gpupool/opencv.hpp>

#include "expect.hpp"

namespace {

cv::cuda::GpuMat::Allocator* default_allocator = nullptr;

}  // namespace

namespace cv {

void* fastMalloc(size_t size) {
  return std::malloc(size);
}
void fastFree(void* ptr) {
  std::free(ptr);
}

cuda::GpuMat::Allocator* cuda::GpuMat::defaultAllocator() {
  return default_allocator;
}
void cuda::GpuMat::setDefaultAllocator(Allocator* allocator) {
  default_allocator = allocator;
}

void cuda::GpuMat::create(int rows_now, int cols_now, int type_now) {
  release();
  flags = Mat::MAGIC_VAL + type_now;
  rows = rows_now;
  cols = cols_now;
  if (!allocator->allocate(this, rows, cols, elemSize())) throw std::bad_alloc();
  datastart = data;
  dataend = data + step * static_cast<size_t>(rows - 1) + static_cast<size_t>(cols) * elemSize();
  *refcount = 1;
}

void cuda::GpuMat::release() {
  if (refcount != nullptr && CV_XADD(refcount, -1) == 1) allocator->free(this);
  data = datastart = nullptr;
  dataend = nullptr;
  step = 0;
  rows = cols = 0;
  refcount = nullptr;
}

}  // namespace cv

namespace {

void images(gpupool_t* pool, gpupool_stream_t stream) {
  cv::cuda::GpuMat image(1080, 1921, CV_8UC3);
  expect(image.step % 512 == 0 && image.step >= 1921 * 3, "rows begin at multiples of 512");
  expect(block_at(pool, image.data).requested_bytes == image.step * 1080, "the matrix is the pool's");
  const cv::cuda::GpuMat same = image;
  work_on(stream, image.data, 1 << 20);
  image.release();
  expect(block_at(pool, same.data).requested_bytes > 0, "two share it");
}

void one_row() {
  const cv::cuda::GpuMat row(1, 1000, CV_32F);
  expect(row.step == 4000, "one row has no gap");
}

void of_one_stream(gpupool_t* pool, gpupool_stream_t stream) {
  gpupool::OpenCvAllocator ordered(pool, reinterpret_cast<void*>(stream));
  const void* before = nullptr;
  for (int i = 0; i < 10; ++i) {
    const cv::cuda::GpuMat image(1000, 1000, CV_8U, &ordered);
    expect(block_at(pool, image.data).stream == stream, "it is the stream's");
    expect(before == nullptr || image.data == before,
           "what the stream freed serves it again, without a wait");
    work_on(stream, image.data, 1 << 20);
    before = image.data;
  }
}

}  // namespace

int main() {
  static gpupool::OpenCvAllocator memory(0);
  cv::cuda::GpuMat::setDefaultAllocator(&memory);
  gpupool_t* pool = memory.pool();
  gpupool_stream_t stream = 0;
  expect(gpupool_stream_create(pool, &stream) == GPUPOOL_SUCCESS, "there is a stream");
  images(pool, stream);
  {
    const cv::cuda::GpuMat other(1080, 1921, CV_8UC3);
    work_on(0, other.data, 1 << 20);  // the simulated device sees it if the free did not wait
  }
  one_row();
  of_one_stream(pool, stream);
  (void)gpupool_set_limit(pool, 16 << 20);
  bool is_refused = false;
  try {
    const cv::cuda::GpuMat large(10000, 10000, CV_32F);
  } catch (const std::bad_alloc&) {
    is_refused = true;
  }
  expect(is_refused, "a shortage is refused");
  (void)gpupool_stream_destroy(pool, stream);
  expect_all_freed(pool);
}
