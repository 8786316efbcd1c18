// SPDX-License-Identifier: Apache-2.0
// Drivers that refuse what their devices claim to support, by the stand-in.
#include "pool/variants.hpp"

namespace pool_test {
namespace {

class Refusals : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_not(Machine::stand_in); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override { unsetenv("GPUPOOL_MODE"); }

  static gpupool_config_t cuda_config(gpupool_mode_t mode = GPUPOOL_MODE_AUTO) {
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_CUDA;
    config.mode = mode;
    return config;
  }

  /// Whether a new pool has its memory in chunks.
  static bool has_chunks(const gpupool_config_t& config) {
    PoolUnderTest pool(config);
    pool.free(pool.malloc(kMiB));
    const gpupool_driver_stats_t calls = pool.stats().driver;
    EXPECT_NE(calls.create.count == 0, calls.malloc.count == 0);
    return calls.create.count != 0;
  }
};

TEST_F(Refusals, ModeAutoTakesSegmentsWhereNoChunksAreAllowed) {
  for (const uint32_t code : {800u, 801u}) {
    fake_cuda().fail("cuMemCreate", 0, code);
    EXPECT_FALSE(has_chunks(cuda_config()));
    gpupool_t* pool = nullptr;
    const gpupool_config_t config = cuda_config(GPUPOOL_MODE_VMM);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_create(&config, &pool)));
    fake_cuda().reset();
    EXPECT_TRUE(has_chunks(cuda_config()));
  }
}

TEST_F(Refusals, TheEnvironmentSaysWhatModeAutoIs) {
  setenv("GPUPOOL_MODE", "driver", 1);
  EXPECT_FALSE(has_chunks(cuda_config()));
  EXPECT_TRUE(has_chunks(cuda_config(GPUPOOL_MODE_VMM))) << "a mode that is named stays";
  for (const char* mode : {"vmm", "auto", ""}) {
    setenv("GPUPOOL_MODE", mode, 1);
    EXPECT_TRUE(has_chunks(cuda_config())) << mode;
    gpupool_config_t pinned = cuda_config();
    pinned.kind = GPUPOOL_KIND_PINNED;
    EXPECT_FALSE(has_chunks(pinned)) << mode;
  }
  setenv("GPUPOOL_MODE", "segments", 1);
  gpupool_t* pool = nullptr;
  const gpupool_config_t config = cuda_config();
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create(&config, &pool)));
  EXPECT_EQ(last_message(), "GPUPOOL_MODE is \"segments\", not auto, vmm or driver");
}

TEST_F(Refusals, AMallocWithoutAddressesSaysSo) {
  PoolUnderTest pool(cuda_config());
  fake_cuda().fail("cuMemAddressReserve", 0, 2);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, pool.try_malloc(100 * kMiB)));
  EXPECT_EQ(last_driver_code(), 2);
  EXPECT_NE(last_message().find(": this process has no addresses left for it\n"), std::string::npos)
      << last_message();
  fake_cuda().reset();
  // The next shortage is one of memory again.
  fake_cuda().fail("cuMemCreate", 0, 2);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, pool.try_malloc(100 * kMiB)));
  EXPECT_NE(last_message().find(": the device is out of memory\n"), std::string::npos) << last_message();
  fake_cuda().reset();
  pool.free(pool.malloc(100 * kMiB));
}

}  // namespace
}  // namespace pool_test
