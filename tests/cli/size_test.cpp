// SPDX-License-Identifier: Apache-2.0
#include "cli/base/size.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "cli/base/library.hpp"

namespace gpupool::cli {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// What is a size is decided by gpupool_parse_size, which tests/abi/bad_texts.c tests.
TEST(ParseBytes, takes_numbers_and_suffixes) {
  EXPECT_EQ(parse_bytes("1", "--cap"), 1u);
  EXPECT_EQ(parse_bytes("4096B", "--cap"), 4096u);
  EXPECT_EQ(parse_bytes("512KiB", "--cap"), 512u << 10);
  EXPECT_EQ(parse_bytes("32mib", "--cap"), 32u << 20);
  EXPECT_EQ(parse_bytes("1.5 GiB", "--cap"), kGiB + kGiB / 2);
  EXPECT_EQ(parse_bytes("2TiB", "--cap"), 2048 * kGiB);
  EXPECT_EQ(parse_bytes("2GB", "--cap"), 2000000000u);
  EXPECT_EQ(parse_bytes("18446744073709551615", "--cap"), ~uint64_t{0});
  EXPECT_EQ(parse_bytes("9007199254740993", "--cap"), 9007199254740993u) << "2^53 + 1 is no double";
}

TEST(ParseBytes, refuses_everything_else) {
  for (const char* text : {"", "x", "-1", "0", "1 Gi", "18446744073709551616", "0.3", "10 20", "40%"}) {
    EXPECT_THROW(parse_bytes(text, "--cap"), InputError) << text;
  }
}

TEST(ParseBytes, names_the_option_and_the_text) {
  try {
    parse_bytes("lots", "--max-chunk");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()).find("--max-chunk: size is \"lots\", not a size such as"), 0u)
        << error.what();
  }
}

TEST(ParseCap, takes_bytes_and_multiples) {
  EXPECT_EQ(parse_cap("10GiB").for_peak(1), 10 * kGiB);
  EXPECT_EQ(parse_cap("1.05x").for_peak(1000), 1050u);
  EXPECT_EQ(parse_cap("0.5X").for_peak(1001), 501u) << "rounded up";
}

TEST(ParseCap, refuses_what_is_no_cap) {
  for (const char* text : {"", "x", "0x", "-1x", "1.05xx", "1,05x", "nanx", "infx", "1e1x", "0"}) {
    EXPECT_THROW(parse_cap(text), InputError) << text;
  }
}

TEST(ScaleBytes, does_not_overflow) {
  EXPECT_EQ(scale_bytes(uint64_t{1} << 63, 2.0), ~uint64_t{0});
  EXPECT_EQ(scale_bytes(uint64_t{1} << 40, 1.0), uint64_t{1} << 40);
}

TEST(Format, is_for_people) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(2 << 20), "2 MiB");
  EXPECT_EQ(format_bytes(kGiB + kGiB / 4), "1.25 GiB");
  EXPECT_EQ(format_bytes(140 * kGiB + kGiB / 2), "140.5 GiB");
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(1234567), "1,234,567");
}

TEST(Format, estimates_have_as_many_digits_as_they_are_good_for) {
  constexpr double kEach = 1 << 20;           // a MiB
  constexpr uint64_t kBytes = 1'379'435'000;  // 1.2847 GiB
  EXPECT_EQ(format_estimate(kBytes, 0), "1.28 GiB");
  EXPECT_EQ(format_estimate(kBytes, 0.001 * kEach), "1.28 GiB");
  EXPECT_EQ(format_estimate(kBytes, 30 * kEach), "1.28 GiB");
  EXPECT_EQ(format_estimate(kBytes, 1315 * kEach / std::sqrt(20)), "1.3 GiB");
  EXPECT_EQ(format_estimate(kBytes, 1100 * kEach), "1 GiB");
  EXPECT_EQ(format_estimate(kBytes, 1e30), "1 GiB");
  EXPECT_EQ(format_estimate(uint64_t{268} << 20, 30 * kEach), "270 MiB");
  EXPECT_EQ(format_estimate(uint64_t{268} << 20, 268 * kEach), "300 MiB");
  EXPECT_EQ(format_estimate(uint64_t{2} << 30, 64 * kEach), "2 GiB");
  EXPECT_EQ(format_estimate(0, 5), "0 B");
}

}  // namespace
}  // namespace gpupool::cli
