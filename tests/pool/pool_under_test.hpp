// SPDX-License-Identifier: Apache-2.0
// A pool as tests use it: short words over the C functions, each of which must succeed unless said otherwise.
#pragma once

#include <gpupool/gpupool.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace pool_test {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;
inline constexpr uint64_t kGranule = 2 * kMiB;
inline constexpr gpupool_stream_t kUnknownStream = GPUPOOL_STREAM_UNKNOWN;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// The calling thread's last failure, in words.
inline std::string last_message() {
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  gpupool_last_error(&error);
  return error.message;
}

inline int32_t last_driver_code() {
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  gpupool_last_error(&error);
  return error.driver_code;
}

/// The call succeeded.
inline testing::AssertionResult ok(gpupool_status_t status) {
  if (status == GPUPOOL_SUCCESS) return testing::AssertionSuccess();
  return testing::AssertionFailure() << gpupool_status_name(status) << ": " << last_message();
}

/// The call was refused with this status, and the thread's last error tells so in words.
inline testing::AssertionResult refused(gpupool_status_t expected, gpupool_status_t status) {
  if (status != expected) {
    return testing::AssertionFailure() << gpupool_status_name(status) << " instead of "
                                       << gpupool_status_name(expected) << ": " << last_message();
  }
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  if (gpupool_last_error(&error) != GPUPOOL_SUCCESS || error.status != static_cast<int32_t>(expected) ||
      error.message[0] == '\0') {
    return testing::AssertionFailure()
           << "gpupool_last_error does not tell of " << gpupool_status_name(expected);
  }
  return testing::AssertionSuccess();
}

inline uint64_t count_calls(const gpupool_driver_stats_t& calls) {
  return calls.create.count + calls.release.count + calls.map.count + calls.set_access.count +
         calls.unmap.count + calls.address.count + calls.malloc.count + calls.free.count +
         calls.event_record.count + calls.query.count + calls.stream_wait.count + calls.host_wait.count;
}

/// Sets a simulated device up that no pool uses. Data 0 and capacity 0: what GPUPOOL_SIM says, or an H200's.
inline void configure_device(int32_t device, uint32_t data, uint64_t capacity = 0) {
  gpupool_sim_config_t config{};
  config.struct_size = sizeof config;
  config.data = data;
  config.capacity_bytes = capacity;
  ASSERT_TRUE(ok(gpupool_sim_configure(device, &config)));
}

inline gpupool_config_t empty_config() {
  gpupool_config_t config;
  EXPECT_TRUE(ok(gpupool_config_init(&config, sizeof config)));
  return config;
}

struct Snapshot {
  std::vector<gpupool_segment_t> segments;
  std::vector<gpupool_block_t> blocks;
};

class PoolUnderTest {
 public:
  explicit PoolUnderTest(const gpupool_config_t& config) {
    EXPECT_TRUE(ok(gpupool_create(&config, &handle_)));
  }
  explicit PoolUnderTest(gpupool_t* handle) : handle_(handle) {}
  static gpupool_t* child_of(gpupool_t* parent) {
    gpupool_t* child = nullptr;
    EXPECT_TRUE(ok(gpupool_create_child(parent, &child)));
    return child;
  }
  PoolUnderTest(const PoolUnderTest&) = delete;
  PoolUnderTest& operator=(const PoolUnderTest&) = delete;
  ~PoolUnderTest() {
    if (handle_ == nullptr) return;
    EXPECT_TRUE(ok(gpupool_validate(handle_)));
    EXPECT_TRUE(ok(gpupool_destroy(handle_)));
  }

  operator gpupool_t*() const { return handle_; }  // NOLINT: stands for the handle

  /// The test destroys the pool by itself.
  gpupool_t* give_up() { return std::exchange(handle_, nullptr); }

  gpupool_ptr_t malloc(uint64_t size, gpupool_stream_t stream = 0) {
    gpupool_ptr_t block = 0;
    EXPECT_TRUE(ok(gpupool_malloc(handle_, size, stream, &block)));
    return block;
  }

  /// A malloc that may fail; the pointer must be 0 then.
  gpupool_status_t try_malloc(uint64_t size, gpupool_stream_t stream, gpupool_ptr_t& block) {
    block = 0xabab;
    const gpupool_status_t status = gpupool_malloc(handle_, size, stream, &block);
    EXPECT_EQ(status != GPUPOOL_SUCCESS, block == 0) << gpupool_status_name(status);
    return status;
  }
  gpupool_status_t try_malloc(uint64_t size, gpupool_stream_t stream = 0) {
    gpupool_ptr_t block = 0;
    return try_malloc(size, stream, block);
  }

  void free(gpupool_ptr_t block, gpupool_stream_t stream = 0) {
    EXPECT_TRUE(ok(gpupool_free(handle_, block, stream)));
  }
  void record_stream(gpupool_ptr_t block, gpupool_stream_t stream) {
    EXPECT_TRUE(ok(gpupool_record_stream(handle_, block, stream)));
  }
  uint64_t empty() {
    uint64_t released = 0;
    EXPECT_TRUE(ok(gpupool_empty(handle_, &released)));
    return released;
  }
  uint64_t trim(uint64_t target) {
    uint64_t released = 0;
    EXPECT_TRUE(ok(gpupool_trim(handle_, target, &released)));
    return released;
  }
  void set_limit(uint64_t bytes) { EXPECT_TRUE(ok(gpupool_set_limit(handle_, bytes))); }
  void synchronize() { EXPECT_TRUE(ok(gpupool_synchronize(handle_))); }
  void validate() { EXPECT_TRUE(ok(gpupool_validate(handle_))); }

  gpupool_stats_t stats() {
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    EXPECT_TRUE(ok(gpupool_stats(handle_, &stats)));
    return stats;
  }
  uint64_t reserved() { return stats().all.reserved_bytes.current; }
  uint64_t allocated() { return stats().all.allocated_bytes.current; }
  uint64_t active() { return stats().all.active_bytes.current; }

  gpupool_block_t info(gpupool_ptr_t pointer) {
    gpupool_block_t block{};
    EXPECT_TRUE(ok(gpupool_block_info(handle_, pointer, &block, sizeof block)));
    return block;
  }
  gpupool_status_t try_info(gpupool_ptr_t pointer) {
    gpupool_block_t block{};
    return gpupool_block_info(handle_, pointer, &block, sizeof block);
  }

  Snapshot snapshot() {
    Snapshot result;
    size_t segments = 0;
    size_t blocks = 0;
    EXPECT_TRUE(ok(gpupool_snapshot(handle_, nullptr, sizeof(gpupool_segment_t), 0, &segments, nullptr,
                                    sizeof(gpupool_block_t), 0, &blocks)));
    result.segments.resize(segments);
    result.blocks.resize(blocks);
    EXPECT_TRUE(
        ok(gpupool_snapshot(handle_, result.segments.data(), sizeof(gpupool_segment_t), segments, &segments,
                            result.blocks.data(), sizeof(gpupool_block_t), blocks, &blocks)));
    EXPECT_EQ(segments, result.segments.size());
    EXPECT_EQ(blocks, result.blocks.size());
    return result;
  }

  std::string report() {
    size_t length = 0;
    EXPECT_TRUE(ok(gpupool_report(handle_, nullptr, 0, &length)));
    std::string text(length + 1, '\0');
    EXPECT_TRUE(ok(gpupool_report(handle_, text.data(), text.size(), &length)));
    text.resize(std::strlen(text.c_str()));
    EXPECT_EQ(text.size(), length);
    return text;
  }

 private:
  gpupool_t* handle_ = nullptr;
};

}  // namespace pool_test
