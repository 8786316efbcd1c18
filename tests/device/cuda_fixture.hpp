// SPDX-License-Identifier: Apache-2.0
// CUDA devices over the stand-in driver. FAKE_CUDA_LIBRARY is its path, from the build.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/size.hpp"
#include "device/cuda/api.hpp"
#include "device/cuda/cuda.hpp"
#include "fake_cuda/fake_cuda.hpp"

namespace gpupool::internal {

inline void use_fake_cuda() {
  setenv("GPUPOOL_LIBCUDA", FAKE_CUDA_LIBRARY, 1);
}

inline std::string last_message() {
  return last_error().message;
}

/// A device opened for each test; at the end of each, the driver and the thread must be as before.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    use_fake_cuda();
    ASSERT_EQ(load_cuda_driver(driver_), kSuccess) << last_message();
    device_ = open();
    ASSERT_NE(device_, nullptr) << last_message();
  }

  void TearDown() override {
    fake_.reset();
    device_.reset();
    const FakeCudaLive live = fake_.live();
    EXPECT_EQ(live.reservations, 0u);
    EXPECT_EQ(live.chunks, 0u);
    EXPECT_EQ(live.mappings, 0u);
    EXPECT_EQ(live.allocations, 0u);
    EXPECT_EQ(live.events, 0u);
    EXPECT_EQ(live.streams, 0u);
    EXPECT_EQ(fake_.faults(), 0u);
    EXPECT_EQ(fake_.context_depth(), 0);
    EXPECT_EQ(fake_.capture_mode(), cuda::CU_STREAM_CAPTURE_MODE_GLOBAL);
  }

  static std::unique_ptr<Device> open(int32_t ordinal = 0, std::vector<int32_t> peers = {}) {
    std::unique_ptr<Device> device;
    open_cuda(ordinal, peers, device);
    return device;
  }

  /// A chunk of one granule, mapped and accessible.
  struct Mapped {
    Address address = 0;
    ChunkHandle chunk = 0;
  };

  static Mapped map_granule(Device& device) {
    Mapped mapped;
    EXPECT_EQ(device.reserve_addresses(kGranule, mapped.address), kSuccess);
    EXPECT_EQ(device.create_chunk(kGranule, mapped.chunk), kSuccess);
    EXPECT_EQ(device.map(mapped.address, kGranule, mapped.chunk), kSuccess);
    EXPECT_EQ(device.set_access(mapped.address, kGranule), kSuccess);
    return mapped;
  }

  static void unmap_granule(Device& device, const Mapped& mapped) {
    EXPECT_EQ(device.unmap(mapped.address, kGranule), kSuccess);
    EXPECT_EQ(device.release_chunk(mapped.chunk), kSuccess);
    EXPECT_EQ(device.release_addresses(mapped.address, kGranule), kSuccess);
  }

  static cuda::CUcontext as_context(void* context) { return static_cast<cuda::CUcontext>(context); }

  const FakeCudaControls& fake_ = (use_fake_cuda(), fake_cuda());
  const CudaDriver* driver_ = nullptr;
  std::unique_ptr<Device> device_;
};

}  // namespace gpupool::internal
