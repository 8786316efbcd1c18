// SPDX-License-Identifier: Apache-2.0
// Single blocks that sleep: short helpers.
#pragma once

#include "sleep_fixture.hpp"

namespace sleep_test {

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

}  // namespace sleep_test
