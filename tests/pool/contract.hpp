// SPDX-License-Identifier: Apache-2.0
// The fixture of the contract: a fresh device for each test, streams that tests can make busy, and at the end
// of each test a device as it was, on which no rule was broken.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "pool/variants.hpp"

namespace pool_test {

/// A block of chunks of its own.
inline constexpr uint64_t kBlock = 24 * kMiB;

class Contract : public testing::TestWithParam<Variant> {
 protected:
  static constexpr int32_t kDevice = 0;
  static constexpr uint64_t kCapacity = 4 * kGiB;

  void SetUp() override {
    if (const std::string reason = why_not(variant().machine); !reason.empty()) GTEST_SKIP() << reason;
    if (variant().machine == Machine::sim) configure_device(kDevice, 0, kCapacity);
    if (variant().machine == Machine::stand_in) set_capacity(kCapacity);
    gpupool_config_t plain = empty_config();
    plain.backend = variant().backend();
    ASSERT_TRUE(ok(gpupool_create(&plain, &lab_)));
    if (variant().source == Source::pool) {
      ASSERT_TRUE(ok(gpupool_create(&plain, &upstream_pool_)));
    }
    free_at_start_ = device_free();
  }

  void TearDown() override {
    if (lab_ == nullptr) return;
    EXPECT_TRUE(ok(gpupool_destroy(upstream_pool_)));
    for (const gpupool_stream_t stream : streams_) {
      EXPECT_TRUE(ok(gpupool_stream_destroy(lab_, stream)));
    }
    expect_all_given_back();
    EXPECT_TRUE(ok(gpupool_destroy(lab_)));
    expect_no_faults();
    EXPECT_EQ(host_blocks_, 0);
  }

  static const Variant& variant() { return GetParam(); }

  gpupool_config_t config() {
    gpupool_config_t config = empty_config();
    config.device = kDevice;
    config.backend = variant().backend();
    config.mode = variant().mode;
    config.kind = variant().kind;
    if (variant().mode == GPUPOOL_MODE_UPSTREAM) {
      config.upstream_malloc = variant().source == Source::host ? malloc_on_host : malloc_in_pool;
      config.upstream_free = variant().source == Source::host ? free_on_host : free_in_pool;
      config.upstream_user = this;
    }
    return config;
  }
  gpupool_config_t config_with_limit(uint64_t bytes) {
    gpupool_config_t limited = config();
    limited.limit_bytes = bytes;
    return limited;
  }

  // ---- the device

  /// Makes the device small. On the simulated device before any pool is created.
  void set_capacity(uint64_t bytes) {
    if (variant().machine == Machine::stand_in) fake_cuda().set_capacity(kDevice, bytes);
  }

  gpupool_device_info_t device_info() const {
    gpupool_device_info_t info{};
    info.struct_size = sizeof info;
    EXPECT_TRUE(ok(gpupool_device_info(static_cast<gpupool_backend_t>(variant().backend()), kDevice, &info)));
    return info;
  }
  uint64_t device_free() const { return device_info().free_bytes; }

  /// What all pools of this test took from the device, by its own figures. Others use a real one as well.
  uint64_t taken_from_device() const {
    const uint64_t now = device_free();
    return free_at_start_ - std::min(free_at_start_, now);
  }

  void expect_all_given_back() const {
    if (variant().machine == Machine::host)
      return;  // whoever runs beside the test takes and gives memory too
    if (variant().is_controlled()) {
      EXPECT_EQ(taken_from_device(), 0u);
    } else {
      EXPECT_LE(taken_from_device(), 64 * kMiB);
    }
  }

  void expect_no_faults() const {
    if (variant().machine == Machine::sim) {
      uint64_t faults = 0;
      char text[512] = {};
      EXPECT_TRUE(ok(gpupool_sim_faults(kDevice, &faults, text, sizeof text)));
      EXPECT_TRUE(faults == 0 || breaks_rules_) << text;
    }
    if (variant().machine == Machine::stand_in) {
      fake_cuda().reset();
      const FakeCudaLive live = fake_cuda().live();
      EXPECT_EQ(live.reservations, 0u);
      EXPECT_EQ(live.chunks, 0u);
      EXPECT_EQ(live.mappings, 0u);
      EXPECT_EQ(live.allocations, 0u);
      EXPECT_EQ(live.events, 0u);
      EXPECT_EQ(live.streams, 0u);
      EXPECT_EQ(fake_cuda().faults(), 0u);
      EXPECT_EQ(fake_cuda().context_depth(), 0);
    }
  }

  /// What the test does is a fault of the program itself.
  void expect_faults() { breaks_rules_ = true; }

  // ---- streams

  gpupool_stream_t new_stream() {
    gpupool_stream_t stream = 0;
    EXPECT_TRUE(ok(gpupool_stream_create(lab_, &stream)));
    streams_.push_back(stream);
    return stream;
  }

  /// The stream's owner destroys it; every pool of the test but the upstream must have released it.
  void destroy_stream(gpupool_stream_t stream) {
    if (upstream_pool_ != nullptr) {
      EXPECT_TRUE(ok(gpupool_release_stream(upstream_pool_, stream)));
    }
    EXPECT_TRUE(ok(gpupool_stream_destroy(lab_, stream)));
    std::erase(streams_, stream);
  }

  /// Queues work on a block, which is not done before finish(). On the simulated device it is an error if
  /// another stream's unfinished work uses the same memory.
  void work(gpupool_stream_t stream, gpupool_ptr_t block, uint64_t size) {
    if (variant().machine == Machine::sim) {
      const bool touches = variant().takes_work();
      EXPECT_TRUE(ok(gpupool_sim_work(kDevice, stream, touches ? block : 0, touches ? size : 0, kWorkTime)));
    } else {
      fake_cuda().hold(stream);
      EXPECT_TRUE(ok(gpupool_fill(lab_, block, 0xee, size, stream)));
    }
  }

  /// Frees a block that its stream is still using.
  gpupool_ptr_t free_busy_block(PoolUnderTest& pool, gpupool_stream_t stream, uint64_t size) {
    EXPECT_TRUE(ok(gpupool_reserve(pool, 0, new_stream())));  // a stream that is alone leaves no events
    const gpupool_ptr_t block = pool.malloc(size, stream);
    work(stream, block, size);
    pool.free(block, stream);
    return block;
  }

  /// Lets a stream do what is queued on it.
  void finish(gpupool_stream_t stream) {
    if (variant().machine == Machine::sim) {
      EXPECT_TRUE(ok(gpupool_sim_advance(kDevice, 8 * kWorkTime)));
    } else {
      fake_cuda().release(stream);
    }
  }

  gpupool_t* lab_ = nullptr;  // creates streams and queues work; never allocates
  gpupool_t* upstream_pool_ = nullptr;

 private:
  bool breaks_rules_ = false;
  static constexpr uint64_t kWorkTime = 1'000'000'000;

  // Callbacks may be called from any thread with no lock held. That they can call any pool shows it.

  static int32_t malloc_on_host(void* user, uint64_t size, gpupool_stream_t, gpupool_ptr_t* out_ptr) {
    void* memory = std::aligned_alloc(512, size);
    if (memory == nullptr) return 1;
    ++static_cast<Contract*>(user)->host_blocks_;
    *out_ptr = reinterpret_cast<uintptr_t>(memory);
    return 0;
  }
  static void free_on_host(void* user, gpupool_ptr_t ptr, uint64_t, gpupool_stream_t) {
    --static_cast<Contract*>(user)->host_blocks_;
    std::free(reinterpret_cast<void*>(ptr));
  }
  static int32_t malloc_in_pool(void* user, uint64_t size, gpupool_stream_t stream, gpupool_ptr_t* out_ptr) {
    return gpupool_malloc(static_cast<Contract*>(user)->upstream_pool_, size, stream, out_ptr);
  }
  static void free_in_pool(void* user, gpupool_ptr_t ptr, uint64_t size, gpupool_stream_t stream) {
    gpupool_t* pool = static_cast<Contract*>(user)->upstream_pool_;
    gpupool_block_t block{};
    EXPECT_TRUE(ok(gpupool_block_info(pool, ptr, &block, sizeof block)));
    EXPECT_EQ(block.requested_bytes, size);
    EXPECT_TRUE(ok(gpupool_free(pool, ptr, stream)));
  }

  std::vector<gpupool_stream_t> streams_;
  uint64_t free_at_start_ = 0;
  std::atomic<int> host_blocks_{0};
};

}  // namespace pool_test
