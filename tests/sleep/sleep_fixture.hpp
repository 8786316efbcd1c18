// SPDX-License-Identifier: Apache-2.0
// Pools that sleep on a simulated device: short helpers, and the contents of a block.
#pragma once

#include <functional>
#include <utility>

#include "pool/pool_under_test.hpp"
#include "pool/sleep/sleep_plan.hpp"
#include "support/pattern.hpp"

namespace sleep_test {

using namespace pool_test;  // NOLINT: these tests speak its words
using test_support::has_pattern;
using test_support::is_filled;
using test_support::write_pattern;

inline constexpr int32_t kDevice = 0;
inline constexpr uint64_t kCapacity = 512 * kMiB;

inline gpupool_sleep_options_t options(gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE,
                                       uint32_t flags = 0) {
  gpupool_sleep_options_t result{};
  result.struct_size = sizeof result;
  result.mode = mode;
  result.flags = flags;
  return result;
}

inline gpupool_sleep_result_t empty_result() {
  gpupool_sleep_result_t result{};
  result.struct_size = sizeof result;
  return result;
}

inline void script(const std::string& text) {
  ASSERT_TRUE(ok(gpupool_sim_script(kDevice, text.c_str())));
}

inline uint64_t device_free() {
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  EXPECT_TRUE(ok(gpupool_device_info(GPUPOOL_BACKEND_SIM, kDevice, &info)));
  return info.free_bytes;
}

inline uint64_t fault_count(std::string* last = nullptr) {
  uint64_t count = 0;
  char text[512] = {};
  EXPECT_TRUE(ok(gpupool_sim_faults(kDevice, &count, text, sizeof text)));
  if (last != nullptr) *last = text;
  return count;
}

inline gpupool_sleep_state_t state_of(gpupool_t* pool) {
  gpupool_sleep_state_t state{};
  EXPECT_TRUE(ok(gpupool_sleep_state(pool, &state)));
  return state;
}

inline gpupool_sleep_result_t fall_asleep(gpupool_t* pool,
                                          gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE,
                                          uint32_t flags = 0) {
  const gpupool_sleep_options_t how = options(mode, flags);
  gpupool_sleep_result_t result = empty_result();
  EXPECT_TRUE(ok(gpupool_sleep(pool, &how, &result)));
  EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_ASLEEP);
  EXPECT_TRUE(ok(gpupool_validate(pool)));
  return result;
}

inline gpupool_sleep_result_t wake(gpupool_t* pool, uint32_t flags = 0, uint32_t fill = 0) {
  gpupool_sleep_options_t how = options(GPUPOOL_SLEEP_MODE_SAVE, flags);
  how.fill = fill;
  gpupool_sleep_result_t result = empty_result();
  EXPECT_TRUE(ok(gpupool_wake(pool, &how, &result)));
  EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_AWAKE);
  EXPECT_TRUE(ok(gpupool_validate(pool)));
  return result;
}

inline gpupool_status_t try_sleep(gpupool_t* pool, gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE) {
  const gpupool_sleep_options_t how = options(mode);
  return gpupool_sleep(pool, &how, nullptr);
}

inline gpupool_status_t try_wake(gpupool_t* pool, uint64_t timeout_ns = 0) {
  gpupool_sleep_options_t how = options();
  how.timeout_ns = timeout_ns;
  return gpupool_wake(pool, &how, nullptr);
}

inline unsigned char* bytes_at(gpupool_ptr_t block) {
  return reinterpret_cast<unsigned char*>(block);
}

/// While it lives, at most so many bytes go together: a pool of little memory goes in several batches, and
/// the copies of all are under way at once.
class Batches {
 public:
  explicit Batches(uint64_t most)
      : before_(std::exchange(gpupool::internal::SleepPlan::most_in_batch, most)) {}
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;
  ~Batches() { gpupool::internal::SleepPlan::most_in_batch = before_; }

 private:
  uint64_t before_;
};

/// Each test has device 0 to itself; no rule may have been broken at its end but those it says.
class Sleep : public testing::Test {
 protected:
  void SetUp() override { restart(); }
  void TearDown() override {
    std::string last;
    EXPECT_EQ(fault_count(&last), expected_faults_) << last;
    EXPECT_EQ(device_free(), capacity_);
  }

  void restart(uint32_t data = 1, uint64_t capacity = kCapacity, uint64_t host = 0) {
    gpupool_sim_config_t config{};
    config.struct_size = sizeof config;
    config.data = data;
    config.capacity_bytes = capacity;
    config.host_bytes = host;
    ASSERT_TRUE(ok(gpupool_sim_configure(kDevice, &config)));
    capacity_ = capacity;
  }

  static gpupool_config_t sim_config() {
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_SIM;
    config.device = kDevice;
    config.mode = GPUPOOL_MODE_VMM;
    return config;
  }

  uint64_t capacity_ = kCapacity;
  uint64_t expected_faults_ = 0;
};

}  // namespace sleep_test
