// SPDX-License-Identifier: Apache-2.0
// torch.cuda.MemPool as a tag: its memory sleeps, and PyTorch's figures follow (S7, S15, S26).
#include <gpupool/torch.h>

#include <map>
#include <memory>

#include "pytorch.hpp"

namespace {

/// What torch._C._cuda_customAllocator makes of a tag's functions.
class TagAllocator final : public stand_in::OtherAllocator {
 public:
  explicit TagAllocator(const char* tag) {
    EXPECT_EQ(gpupool_torch_tag(tag, 0, &alloc_, &free_), GPUPOOL_SUCCESS);
  }
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
    void* ptr = alloc_(size, 0, stream);
    if (ptr != nullptr) streams_[ptr] = {stream, size};
    return ptr;
  }
  void raw_delete(void* ptr) override {
    const auto [stream, size] = streams_.extract(ptr).mapped();
    free_(ptr, size, 0, stream);
  }

 private:
  gpupool_torch_alloc_fn_t alloc_ = nullptr;
  gpupool_torch_free_fn_t free_ = nullptr;
  std::map<void*, std::pair<cudaStream_t, size_t>> streams_;
};

TEST_F(PyTorch, S7_S15_WhatSleepsIsNotReserved) {
  const Id id{0, 8};
  torch->createOrIncrefPool(0, id, std::make_shared<TagAllocator>("kv_cache"));
  void* outside = torch->raw_alloc(30 * kMiB);
  const int64_t others = reserved();
  begin(id);
  void* inside = torch->raw_alloc(40 * kMiB);
  void* small = torch->raw_alloc(1000);
  torch->raw_delete(torch->raw_alloc(24 * kMiB));  // a segment that nobody uses
  torch->endAllocateToPool(0, id);
  EXPECT_EQ(reserved(), others + static_cast<int64_t>(66 * kMiB));
  const uint64_t chunks = fake_cuda().live().chunks;
  gpupool_sleep_result_t result{};
  result.struct_size = sizeof result;
  ASSERT_EQ(gpupool_sleep_tag("kv_cache", nullptr, &result), GPUPOOL_SUCCESS);
  EXPECT_EQ(result.released_bytes, 66 * kMiB);  // nothing of it is cached on the device
  EXPECT_LT(fake_cuda().live().chunks, chunks);
  EXPECT_EQ(reserved(), others);
  EXPECT_EQ(torch->getDeviceStats(0).reserved_bytes[0].current,
            torch->getDeviceStats(0).reserved_bytes[1].current +
                torch->getDeviceStats(0).reserved_bytes[2].current);
  EXPECT_EQ(allocated(), static_cast<int64_t>(70 * kMiB + 1024));  // tensors are there, asleep
  EXPECT_FALSE(is_usable(0, inside, 40 * kMiB, main));
  ASSERT_EQ(gpupool_wake_tag("kv_cache", nullptr, nullptr), GPUPOOL_SUCCESS);
  EXPECT_EQ(reserved(), others + static_cast<int64_t>(66 * kMiB));
  EXPECT_TRUE(is_usable(0, inside, 40 * kMiB, main));
  torch->releasePool(0, id);
  for (void* block : {outside, inside, small}) torch->raw_delete(block);
  torch->releasePool(0, id);
  torch->emptyCache();
  EXPECT_EQ(reserved(), 0);
}

}  // namespace
