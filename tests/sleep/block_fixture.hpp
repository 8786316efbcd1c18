// SPDX-License-Identifier: Apache-2.0
// Single blocks that sleep: short helpers.
#pragma once

#include <array>

#include "sleep_fixture.hpp"

namespace sleep_test {

/// Of the driver, as a script names them.
inline constexpr std::array kCalls{"create",      "release",   "map",  "set_access", "unmap",
                                   "address",     "malloc",    "free", "query",      "event_record",
                                   "stream_wait", "host_wait", "copy", "stream"};

/// A pool in which every block of whole chunks can sleep wholly.
inline gpupool_config_t small_chunks() {
  gpupool_config_t config = empty_config();
  config.backend = GPUPOOL_BACKEND_SIM;
  config.device = kDevice;
  config.mode = GPUPOOL_MODE_VMM;
  config.max_chunk_bytes = 2 * kMiB;
  return config;
}

inline gpupool_sleep_result_t sleep_block(gpupool_t* pool, gpupool_ptr_t block,
                                          gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE) {
  const gpupool_sleep_options_t how = options(mode);
  gpupool_sleep_result_t result = empty_result();
  EXPECT_TRUE(ok(gpupool_sleep_block(pool, block, &how, &result)));
  EXPECT_EQ(result.pools, 0u);
  EXPECT_TRUE(ok(gpupool_validate(pool)));
  return result;
}

inline gpupool_sleep_result_t wake_block(gpupool_t* pool, gpupool_ptr_t block, int fill = -1) {
  gpupool_sleep_options_t how = options(GPUPOOL_SLEEP_MODE_SAVE, fill >= 0 ? GPUPOOL_SLEEP_FLAG_FILL : 0);
  how.fill = fill >= 0 ? static_cast<uint32_t>(fill) : 0;
  gpupool_sleep_result_t result = empty_result();
  EXPECT_TRUE(ok(gpupool_wake_block(pool, block, &how, &result)));
  EXPECT_EQ(result.pools, 0u);
  EXPECT_TRUE(ok(gpupool_validate(pool)));
  return result;
}

inline gpupool_sleep_options_t target_options(uint64_t bytes,
                                              gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE) {
  gpupool_sleep_options_t how = options(mode);
  how.target_bytes = bytes;
  return how;
}

inline gpupool_sleep_result_t sleep_bytes(gpupool_t* pool, uint64_t bytes,
                                          gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE) {
  const gpupool_sleep_options_t how = target_options(bytes, mode);
  gpupool_sleep_result_t result = empty_result();
  EXPECT_TRUE(ok(gpupool_sleep(pool, &how, &result)));
  EXPECT_EQ(result.pools, 0u);
  EXPECT_EQ(state_of(pool), GPUPOOL_SLEEP_STATE_AWAKE);
  EXPECT_TRUE(ok(gpupool_validate(pool)));
  return result;
}

}  // namespace sleep_test
