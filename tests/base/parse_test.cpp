// SPDX-License-Identifier: Apache-2.0
// Sizes, shares, times and devices as people write them. tests/abi/bad_texts.c has more of those that are
// refused.
#include "base/parse.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/bits.hpp"

namespace gpupool::internal {
namespace {

TEST(Parse, TimesFromAMillisecondToAYear) {
  const auto time_of = [](const char* text) {
    uint64_t ns = 0;
    return parse_time("wait", text, ns) == kSuccess ? ns : 0;
  };
  EXPECT_EQ(time_of("30"), 30'000'000'000U) << "seconds";
  EXPECT_EQ(time_of("500ms"), 500'000'000U);
  EXPECT_EQ(time_of("5min"), 300'000'000'000U);
  EXPECT_EQ(time_of("1h"), 3'600'000'000'000U);
  for (const char* bad : {"", "0", "-1s", "1 fortnight", "0.1ms", "9000h", "1e400"})
    EXPECT_EQ(time_of(bad), 0U) << bad;
}

TEST(Parse, ABadTextIsQuotedAndChangesNothing) {
  uint64_t bytes = 7;
  EXPECT_EQ(parse_bytes("limit", "40%", bytes), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(bytes, 7U);
  EXPECT_NE(std::string(last_error().message).find("limit is \"40%\""), std::string::npos)
      << last_error().message;
  double share = 0.5;
  EXPECT_EQ(parse_share("part", "1.5", share), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(share, 0.5);
  ASSERT_EQ(parse_share("part", " 40% ", share), kSuccess);
  EXPECT_EQ(share, 0.4);
}

TEST(Parse, ASwitchIsOneOrZero) {
  bool is_on = true;
  unsetenv("GPUPOOL_TEST_SWITCH");
  EXPECT_EQ(read_switch("GPUPOOL_TEST_SWITCH", is_on), kSuccess);
  EXPECT_TRUE(is_on) << "unset: as it was";
  setenv("GPUPOOL_TEST_SWITCH", "0", 1);
  EXPECT_EQ(read_switch("GPUPOOL_TEST_SWITCH", is_on), kSuccess);
  EXPECT_FALSE(is_on);
  setenv("GPUPOOL_TEST_SWITCH", "yes", 1);
  EXPECT_EQ(read_switch("GPUPOOL_TEST_SWITCH", is_on), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_FALSE(is_on);
  unsetenv("GPUPOOL_TEST_SWITCH");
}

TEST(Parse, AShareOfATotalIsAtLeastAByte) {
  uint64_t bytes = 0;
  ASSERT_EQ(bytes_of_share(0.5, 8 * kMiB, bytes), kSuccess);
  EXPECT_EQ(bytes, 4 * kMiB);
  EXPECT_EQ(bytes_of_share(0.1, 5, bytes), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(bytes_of_share(1.1, 8 * kMiB, bytes), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(bytes, 4 * kMiB);
}

}  // namespace
}  // namespace gpupool::internal
