// SPDX-License-Identifier: Apache-2.0
#include "cli/measure/replay.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/base/library.hpp"
#include "cli/measure/data_check.hpp"

namespace gpupool::cli {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

/// A workload of 8 live blocks of 8 MiB on two streams that replaces all of them twice.
Trace sample_trace() {
  std::string text;
  for (int i = 0; i < 8; ++i) text += fmt::format("a {} {} {}\n", i, 8 * kMiB, i % 2);
  for (int i = 0; i < 16; ++i) text += fmt::format("f {}\na {} {} {}\n", i, i + 8, 8 * kMiB, i % 2);
  return parse_trace(text, "sample.trace");
}

class Replay : public ::testing::Test {
 protected:
  explicit Replay(bool with_data = false) {
    const gpupool_device_info_t device = find_device("sim:3");
    configure_data(device, with_data);
    setup_.config = config_for(device);
    setup_.with_data = with_data;
  }

  ReplaySetup setup_;
  Progress progress_;
};

class ReplayWithData : public Replay {
 protected:
  ReplayWithData() : Replay(true) {}
};

TEST_F(Replay, plays_every_pass_and_finds_nothing_wrong) {
  const Trace trace = sample_trace();
  setup_.passes = 3;
  const ReplayResult result = replay(trace, setup_, 0, false, progress_);
  EXPECT_EQ(result.passes.size(), 3u);
  EXPECT_TRUE(result.is_good()) << fmt::format("{}", fmt::join(result.problems, "\n"));
  EXPECT_GE(result.peak_reserved_bytes, trace.peak_live_bytes);
  EXPECT_GT(result.passes[0].driver_calls(), 0u);
  EXPECT_GT(result.passes[0].driver_microseconds(), 0.0);
  for (const PassResult& pass : result.passes) {
    EXPECT_EQ(pass.hits + pass.misses, 24u) << "one of them for each malloc";
    EXPECT_GT(pass.nanoseconds, 0.0);
  }
}

TEST_F(Replay, counts_failed_allocations_and_tells_the_first) {
  const Trace trace = sample_trace();
  const ReplayResult result = replay(trace, setup_, trace.peak_live_bytes / 2, false, progress_);
  EXPECT_EQ(result.passes.size(), 2u);
  EXPECT_GE(result.failed_allocations, 8u);
  EXPECT_EQ(result.inconsistencies, 0u) << fmt::format("{}", fmt::join(result.problems, "\n"));
  ASSERT_EQ(result.problems.size(), 1u);
  EXPECT_TRUE(result.problems[0].starts_with("pass 1, event ")) << result.problems[0];
  EXPECT_NE(result.problems[0].find("GPUPOOL_ERROR_OVER_LIMIT"), std::string::npos) << result.problems[0];
}

TEST_F(Replay, stops_at_the_first_failure_when_asked_to) {
  const Trace trace = sample_trace();
  const ReplayResult result = replay(trace, setup_, trace.peak_live_bytes / 2, true, progress_);
  EXPECT_EQ(result.passes.size(), 1u);
  EXPECT_EQ(result.failed_allocations, 1u);
  EXPECT_EQ(result.inconsistencies, 0u) << "what was live is freed";
}

TEST_F(Replay, finds_the_smallest_cap) {
  const Trace trace = sample_trace();
  std::vector<std::string> problems;
  const std::optional<double> cap = find_cap(trace, setup_, 4.0, progress_, problems);
  ASSERT_TRUE(cap.has_value());
  EXPECT_GE(*cap, 1.0);
  EXPECT_LE(*cap, 1.25);
  EXPECT_TRUE(problems.empty()) << problems[0];
}

TEST_F(ReplayWithData, reads_back_what_was_written) {
  const ReplayResult result = replay(sample_trace(), setup_, 0, false, progress_);
  EXPECT_TRUE(result.is_good()) << fmt::format("{}", fmt::join(result.problems, "\n"));
}

TEST_F(ReplayWithData, sees_a_disturbed_byte_in_a_small_block_and_at_the_ends_of_a_large_one) {
  Pool pool(setup_.config);
  const Stream stream(pool);
  const std::vector<gpupool_stream_t> streams = {stream};
  DataCheck data(pool, streams, 1);
  uint64_t expected = 0;
  for (const auto& [size, offset] :
       {std::pair<uint64_t, uint64_t>{60000, 31234}, {kMiB, 0}, {kMiB, kMiB - 1}}) {
    const gpupool_ptr_t pointer = pool.allocate(size, stream);
    data.write(0, 5, pointer, size, stream);
    stream.synchronize();
    data.read(0, stream);
    data.compare();
    EXPECT_EQ(data.mismatches(), expected) << "nobody has touched it yet";
    auto* const byte = reinterpret_cast<unsigned char*>(pointer + offset);
    *byte = static_cast<unsigned char>(~*byte);
    data.read(0, stream);
    data.compare();
    EXPECT_EQ(data.mismatches(), ++expected);
    pool.deallocate(pointer, stream);
  }
  EXPECT_TRUE(data.first_mismatch().starts_with("block 5 of 60000 bytes at 0x")) << data.first_mismatch();
  EXPECT_NE(data.first_mismatch().find(": byte 31234 is "), std::string::npos) << data.first_mismatch();
}

// What is a name is decided by gpupool_parse_device, which tests/abi/bad_texts.c tests.
TEST(FindDevice, knows_names_and_refuses_others) {
  EXPECT_EQ(device_label(find_device("sim")), "sim:0");
  EXPECT_EQ(device_label(find_device("sim:5")), "sim:5");
  EXPECT_EQ(device_label(find_device("SIM:5")), "sim:5");
  EXPECT_NO_THROW(find_device("auto"));
  for (const char* text :
       {"", "gpu", "sim:", "sim:x", "sim:-1", "sim:1x", "sim:99", "sim:99999999999", "cuda:9999", "99999"}) {
    EXPECT_THROW(find_device(text), InputError) << text;
  }
}

}  // namespace
}  // namespace gpupool::cli
