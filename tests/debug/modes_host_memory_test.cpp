// SPDX-License-Identifier: Apache-2.0
// The host runs out of memory at each allocation of each call on a pool with debug modes in turn. What takes
// memory may say so; what gives it back succeeds, and the device gets all of it. A separate program, because
// it replaces operator new.
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>

#include "pool/pool_under_test.hpp"

namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

/// Allocations that still succeed; all behind them fail.
thread_local uint64_t succeed_first = kNever;
thread_local bool has_failed = false;

bool may_allocate() noexcept {
  if (succeed_first == kNever) return true;
  if (succeed_first == 0) return !(has_failed = true);
  --succeed_first;
  return true;
}

}  // namespace

// Not inlined, or the compiler takes each new for one that free() must not get.
[[gnu::noinline]] void* operator new(size_t size) {
  void* const memory = may_allocate() ? std::malloc(size != 0 ? size : 1) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// A sanitizer has one of its own, whose memory the delete below may not get.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return may_allocate() ? std::malloc(size != 0 ? size : 1) : nullptr;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace {

using pool_test::kMiB;
using pool_test::ok;

constexpr int32_t kDevice = 0;
constexpr gpupool_stream_t kStream = 7;

/// Runs call with all allocations behind the first so many failing. Whether any did.
bool fails_after(uint64_t first, const std::function<gpupool_status_t()>& call, gpupool_status_t& status) {
  has_failed = false;
  succeed_first = first;
  status = call();
  succeed_first = kNever;
  return has_failed;
}

class ModesWithoutMemory : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    gpupool_sim_config_t config{};
    config.struct_size = sizeof config;
    config.data = 1;
    ASSERT_TRUE(ok(gpupool_sim_configure(kDevice, &config)));
    ASSERT_TRUE(ok(gpupool_set_debug(GetParam())));
    free_at_start_ = device_free();
  }
  void TearDown() override {
    EXPECT_TRUE(ok(gpupool_set_debug("")));
    EXPECT_EQ(device_free(), free_at_start_);
  }

  static uint64_t device_free() {
    gpupool_device_info_t info{};
    info.struct_size = sizeof info;
    EXPECT_TRUE(ok(gpupool_device_info(GPUPOOL_BACKEND_SIM, kDevice, &info)));
    return info.free_bytes;
  }
  static gpupool_t* create() {
    gpupool_config_t config = pool_test::empty_config();
    config.backend = GPUPOOL_BACKEND_SIM;
    gpupool_t* pool = nullptr;
    EXPECT_TRUE(ok(gpupool_create(&config, &pool)));
    return pool;
  }
  /// Blocks of several sizes, more than a list has room for at once.
  static std::vector<gpupool_ptr_t> allocate(gpupool_t* pool) {
    std::vector<gpupool_ptr_t> blocks(40);
    uint64_t size = 9 * kMiB;
    for (gpupool_ptr_t& block : blocks) {
      EXPECT_TRUE(ok(gpupool_malloc(pool, size, kStream, &block)));
      size = size / 2 + pool_test::kKiB;
    }
    return blocks;
  }

 private:
  uint64_t free_at_start_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Of, ModesWithoutMemory,
                         testing::Values("guard", "fence", "quarantine=64MiB", "canary", "poison", "annotate",
                                         "fence,canary,poison,quarantine=1MiB"));

TEST_P(ModesWithoutMemory, FreeAndDestroyGiveAllBack) {
  gpupool_status_t status = GPUPOOL_SUCCESS;
  bool failed = true;
  for (uint64_t first = 0; failed; ++first) {
    SCOPED_TRACE(first);
    gpupool_t* const pool = create();
    const std::vector<gpupool_ptr_t> blocks = allocate(pool);
    failed = false;
    for (const gpupool_ptr_t block : blocks) {
      failed = fails_after(
                   first, [&] { return gpupool_free(pool, block, kStream); }, status) ||
               failed;
      if (status != GPUPOOL_SUCCESS) {
        EXPECT_EQ(status, GPUPOOL_ERROR_HOST_OUT_OF_MEMORY);
        EXPECT_TRUE(ok(gpupool_free(pool, block, kStream)));
      }
    }
    failed = fails_after(
                 first, [&] { return gpupool_destroy(pool); }, status) ||
             failed;
    EXPECT_TRUE(ok(status));
  }
}

TEST_P(ModesWithoutMemory, AMallocThatFailsHasChangedNothing) {
  gpupool_t* const pool = create();
  gpupool_ptr_t block = 0;
  gpupool_status_t status = GPUPOOL_SUCCESS;
  bool failed = true;
  for (uint64_t first = 0; failed; ++first) {
    SCOPED_TRACE(first);
    failed = fails_after(
        first, [&] { return gpupool_malloc(pool, 5 * kMiB, kStream, &block); }, status);
    if (status == GPUPOOL_SUCCESS) {
      EXPECT_TRUE(ok(gpupool_free(pool, block, kStream)));
    } else {
      EXPECT_EQ(status, GPUPOOL_ERROR_HOST_OUT_OF_MEMORY);
    }
    EXPECT_TRUE(ok(gpupool_validate(pool)));
  }
  EXPECT_TRUE(ok(gpupool_destroy(pool)));
}

}  // namespace
