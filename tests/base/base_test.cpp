// SPDX-License-Identifier: Apache-2.0
// Arithmetic, sizes in words, messages and the log.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/bits.hpp"
#include "base/log.hpp"
#include "base/size_text.hpp"
#include "base/status.hpp"

namespace gpupool::internal {
namespace {

TEST(Bits, AtTheEndsOfTheirRanges) {
  EXPECT_FALSE(is_power_of_two(0));
  EXPECT_TRUE(is_power_of_two(1));
  EXPECT_TRUE(is_power_of_two(uint64_t{1} << 63));
  EXPECT_FALSE(is_power_of_two(~uint64_t{0}));
  EXPECT_EQ(align_down(1023, 512), 512u);
  EXPECT_EQ(align_up(0, 512), 0u);
  EXPECT_EQ(align_up(1, 512), 512u);
  EXPECT_EQ(align_up(512, 512), 512u);
  EXPECT_EQ(log2_floor(1), 0u);
  EXPECT_EQ(log2_floor(~uint64_t{0}), 63u);
  for (unsigned bit = 1; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    EXPECT_EQ(log2_floor(power), bit);
    EXPECT_EQ(log2_floor(power - 1), bit - 1);
    EXPECT_EQ(floor_power_of_two(power), power);
    EXPECT_EQ(floor_power_of_two(power - 1), power / 2);
  }
}

TEST(Message, IsOneLineWhateverItQuotes) {
  (void)fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "limit is \"%s\"", "8\nGiB\r\x1b[2J\x7f\xc3\xa9");
  EXPECT_STREQ(last_error().message, "limit is \"8?GiB??[2J?\xc3\xa9\"");
}

TEST(SizeText, WritesTheDigitsThatAnEstimateHas) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  EXPECT_EQ(size_text(6 << 10), "6.00 KiB");
  EXPECT_EQ(size_text(1234 * kMiB), "1.21 GiB");
  EXPECT_EQ(size_text(1234 * kMiB, 1.0), "1.21 GiB");
  EXPECT_EQ(size_text(1234 * kMiB, 200.0 * kMiB), "1.2 GiB");
  EXPECT_EQ(size_text(234 * kMiB, 2.0 * kMiB), "234 MiB");
  EXPECT_EQ(size_text(234 * kMiB, 35.0 * kMiB), "230 MiB");
  EXPECT_EQ(size_text(234 * kMiB, 1e30), "200 MiB");  // one always
  EXPECT_EQ(size_text(0, 5), "0 B");
}

TEST(Message, GoesOnInLinesWhereOneCannotHoldAll) {
  std::string lines;
  add_line(lines, "Most is held by:");
  add_line(lines, "  1 B of \"a\nb\x1b\"");
  (void)fail(GPUPOOL_ERROR_OVER_LIMIT, "over the limit");
  explain(lines);
  EXPECT_STREQ(last_error().message, "over the limit\nMost is held by:\n  1 B of \"a?b?\"");
  EXPECT_EQ(first_line_length(last_error()), std::strlen("over the limit"));
  explain(std::string(2000, 'x'));
  EXPECT_EQ(std::strlen(last_error().message), sizeof last_error().message - 1);
}

TEST(Message, AKeptOneOutlivesWhatFailsMeanwhile) {
  (void)fail(GPUPOOL_ERROR_OVER_LIMIT, "the first");
  {
    const KeepError keep_error;
    (void)fail_driver(GPUPOOL_ERROR_DRIVER, 2, "the second");
  }
  EXPECT_EQ(last_error().status, GPUPOOL_ERROR_OVER_LIMIT);
  EXPECT_EQ(last_error().driver_code, 0);
  EXPECT_STREQ(last_error().message, "the first");
}

TEST(Message, IsNotMadeLongerThanATerminal) {
  EXPECT_EQ(own_length("a \"quoted \" word, /a/path here"), 15u);
  (void)fail(GPUPOOL_ERROR_INTERNAL, "%s \"%s\"", std::string(150, 'x').c_str(),
             std::string(500, 'x').c_str());
  const std::string long_one(kMessageLength + 1, 'x');
  EXPECT_DEBUG_DEATH((void)fail(GPUPOOL_ERROR_INTERNAL, "%s", long_one.c_str()), "kMessageLength");
}

TEST(Log, HoldsLinesInTheirOrderAndWithinABound) {
  std::vector<std::string> lines;
  const auto receive = [](void* user, int32_t, const char* line) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(line);
    log_line(GPUPOOL_LOG_ERROR, "a line about a line");
  };
  set_log(receive, &lines, GPUPOOL_LOG_INFO);
  hold_lines();
  hold_lines();
  log_line(GPUPOOL_LOG_INFO, "fir\nst");
  log_line(GPUPOOL_LOG_DEBUG, "not wanted");
  send_lines();
  EXPECT_TRUE(lines.empty());
  log_line(GPUPOOL_LOG_ERROR, "second %d", 2);
  send_lines();
  EXPECT_EQ(lines, (std::vector<std::string>{"fir?st", "second 2"}));
  lines.clear();
  hold_lines();
  for (int i = 0; i < 10'000; ++i) log_line(GPUPOOL_LOG_INFO, "%099d", i);
  send_lines();
  ASSERT_LT(lines.size(), 1000u);
  EXPECT_EQ(lines.back(), std::to_string(10'000 - (lines.size() - 1)) + " more lines found no room");
  set_log(nullptr, nullptr, GPUPOOL_LOG_OFF);
}

}  // namespace
}  // namespace gpupool::internal
