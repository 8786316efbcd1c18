// SPDX-License-Identifier: Apache-2.0
// gpupool.hpp: sleep, tags, holders, recordings, words; sim.hpp.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <gpupool/gpupool.hpp>
#include <gpupool/sim.hpp>

#include "cpp/fixture.hpp"

namespace {

using gpupool::Block;
using gpupool::Pool;
using gpupool::SleepMode;
using gpupool::SleepState;

TEST(Sleep, SavesAndWakes) {
  Pool pool(kSim);
  const Block block(pool, 4 * kMiB);
  const std::vector<char> bytes = {'k', 'e', 'p', 't'};
  gpupool::copy_to_device(block, bytes);
  pool.prepare_backup(4 * kMiB);
  const gpupool_sleep_result_t slept = pool.sleep();
  EXPECT_EQ(slept.saved_bytes, 4 * kMiB);
  EXPECT_EQ(pool.sleep_state(), SleepState::asleep);
  const auto saved = pool.backup(block.ptr());
  ASSERT_GE(saved.size(), bytes.size());
  EXPECT_EQ(std::memcmp(saved.data(), bytes.data(), bytes.size()), 0);
  expect_error(GPUPOOL_ERROR_ASLEEP, [&] { (void)pool.allocate(1); });
  EXPECT_EQ(pool.wake().saved_bytes, 4 * kMiB);
  EXPECT_EQ(pool.sleep_state(), SleepState::awake);
  std::vector<char> back(4);
  gpupool::copy_to_host(back, block);
  EXPECT_EQ(back, bytes);
}

TEST(Sleep, WakesOneBlockFirst) {
  Pool pool(kSim);
  const Block first(pool, 4 * kMiB);
  const Block second(pool, 4 * kMiB);
  pool.sleep();
  EXPECT_EQ(pool.wake_block(second.ptr()).saved_bytes, 4 * kMiB);
  EXPECT_EQ(pool.sleep_state(), SleepState::asleep);
  expect_error(GPUPOOL_ERROR_UNAVAILABLE, [&] { pool.sleep(); });
  EXPECT_EQ(pool.wake().saved_bytes, 4 * kMiB);
}

TEST(Sleep, OneBlockSleepsAlone) {
  struct Hooks {
    std::string calls;
    bool agrees = true;
    bool before_release(gpupool_ptr_t ptr) {
      calls += ptr != 0 ? "b" : "B";
      return agrees;
    }
    bool after_map(gpupool_ptr_t ptr) {
      calls += ptr != 0 ? "a" : "A";
      return true;
    }
  };
  gpupool::Config config = kSim;
  config.max_chunk_bytes = 2 * kMiB;
  Pool pool(config);
  Hooks hooks;
  pool.set_sleep_hooks(hooks);
  const Block block(pool, 4 * kMiB);
  EXPECT_EQ(pool.sleep_block(block.ptr()).released_bytes, 4 * kMiB);
  EXPECT_EQ(pool.sleep_state(), SleepState::awake);
  EXPECT_EQ(pool.wake_block(block.ptr()).created_bytes, 4 * kMiB);
  hooks.agrees = false;
  expect_error(GPUPOOL_ERROR_UNAVAILABLE, [&] { pool.sleep(); });
  EXPECT_EQ(hooks.calls, "baB");
  pool.clear_sleep_hooks();
  pool.sleep();
  pool.wake();
}

TEST(Sleep, ATargetTakesTheIdlestBlocks) {
  gpupool::Config config = kSim;
  config.max_chunk_bytes = 2 * kMiB;
  Pool pool(config);
  pool.set_name("some");
  const Block first(pool, 4 * kMiB);
  const Block second(pool, 4 * kMiB);
  EXPECT_EQ(pool.sleep({.target_bytes = 1}).released_bytes, 4 * kMiB);
  EXPECT_EQ(pool.sleep_state(), SleepState::awake);
  EXPECT_EQ(gpupool::sleep_tag("some", {.mode = SleepMode::drop, .target_bytes = 1024 * kMiB}).dropped_bytes,
            4 * kMiB);
  EXPECT_EQ(pool.wake().saved_bytes, 4 * kMiB);
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT, [&] { pool.sleep_block(first.ptr(), {.target_bytes = 1}); });
}

TEST(Sleep, DropsAndFillsByName) {
  Pool pool(kSim);
  pool.set_name("weights");
  EXPECT_EQ(pool.name(), "weights");
  const Block kept(pool, kMiB);
  const Block lost(pool, kMiB);
  gpupool::copy_to_device(kept, std::vector<char>{'k'});
  pool.set_keep(kept.ptr(), true);
  EXPECT_EQ(gpupool::sleep_tag("nobody").pools, 0U);
  const gpupool_sleep_result_t slept = gpupool::sleep_tag("weights", {.mode = SleepMode::drop});
  EXPECT_EQ(slept.pools, 1U);
  EXPECT_EQ(slept.saved_bytes, kMiB);
  EXPECT_EQ(slept.dropped_bytes, kMiB);
  EXPECT_EQ(gpupool::wake_tag("weights", {.fill = 7}).pools, 1U);
  std::vector<char> back(1);
  gpupool::copy_to_host(back, kept);
  EXPECT_EQ(back[0], 'k');
  gpupool::copy_to_host(back, lost);
  EXPECT_EQ(back[0], 7);
}

TEST(Sleep, ACheckEndsAWaitWhileItLives) {
  Pool pool(kSim);
  const Block block(pool, kMiB);
  (void)pool.sleep({.hold_mallocs = true});
  {
    int asked = 0;
    const gpupool::InterruptCheck check(
        [](void* user, int32_t wait) {
          return ++*static_cast<int*>(user) > 1 && wait == GPUPOOL_WAIT_WAKE ? 1 : 0;
        },
        &asked);
    expect_error(GPUPOOL_ERROR_INTERRUPTED, [&] { const Block held(pool, kMiB); });
    EXPECT_EQ(asked, 2);
  }
  (void)pool.wake();
}

TEST(Watch, HoldersHaveTheirTags) {
  gpupool::set_sampling(kMiB);
  Pool pool(kSim);
  const auto take = [&] {
    const gpupool::Tag tag("kv cache");
    return Block(pool, 512 * kMiB);
  };
  const Block block = take();
  const auto holders = pool.holders();
  ASSERT_EQ(holders.size(), 1U);
  EXPECT_STREQ(holders[0].tag, "kv cache");
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT, [] { gpupool::check(gpupool_tag_pop()); });
}

TEST(Watch, ARecordingIsWritten) {
  const auto file = std::filesystem::temp_directory_path() / ("gpupool_cpp_" + std::to_string(::getpid()));
  std::filesystem::remove(file);  // of an earlier process of that number
  gpupool::record_start(file.string());
  Pool pool(kSim);
  gpupool::mark("step 12");
  gpupool::record_stop();
  EXPECT_GT(std::filesystem::file_size(file), 4096U);
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT, [&] { gpupool::record_start(file.string()); });
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT, [] { gpupool::record_stop(); });
  std::filesystem::remove(file);
}

TEST(Words, AreParsed) {
  EXPECT_EQ(gpupool::parse_size("1.5 GiB").bytes, uint64_t{3} << 29);
  EXPECT_EQ(gpupool::parse_size("40%").share, 0.4);
  EXPECT_EQ(gpupool::parse_device("cuda:1").device, 1);
  EXPECT_EQ(gpupool::parse_device("cuda:1").backend, gpupool::Backend::cuda);
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT, [] { (void)gpupool::parse_size("many"); });
  EXPECT_EQ(gpupool::version(), gpupool_version());
  EXPECT_EQ(gpupool::version_string(), gpupool_version_string());
  EXPECT_EQ(gpupool::features(), gpupool_features());
}

TEST(Sim, CapturesAreLaunchedAndFaultsCounted) {
  constexpr int32_t kDevice = 5;
  gpupool::sim::configure(kDevice, {.data = 2, .capacity_bytes = 256 * kMiB, .streams = 2});
  Pool pool({.device = kDevice, .backend = gpupool::Backend::sim});
  const gpupool::Stream stream(pool);
  const Block block(pool, 2 * kMiB, stream);
  const gpupool::sim::Faults before = gpupool::sim::faults(kDevice);
  gpupool::sim::capture(kDevice, stream, true);
  const uint64_t capture = pool.capture_id(stream);
  EXPECT_NE(capture, 0U);
  gpupool::sim::work(kDevice, stream, block.ptr(), kMiB, 1000);
  gpupool::sim::capture(kDevice, stream, false);
  gpupool::sim::launch(kDevice, capture, stream);
  gpupool::sim::advance(kDevice, 2000);
  pool.release_capture(capture);
  pool.announce_capture(true);
  pool.announce_capture(false);
  expect_error(GPUPOOL_ERROR_INVALID_ARGUMENT, [&] { pool.announce_capture(false); });
  EXPECT_EQ(gpupool::sim::faults(kDevice).count, before.count);
  expect_error(GPUPOOL_ERROR_DRIVER, [&] { gpupool::sim::work(kDevice, 12345, 0, 0, 1); });
  const gpupool::sim::Faults after = gpupool::sim::faults(kDevice);
  EXPECT_EQ(after.count, before.count + 1);
  EXPECT_FALSE(after.last.empty());
  gpupool::sim::script(kDevice, "create:*=out_of_memory");
  EXPECT_THROW((void)pool.allocate(64 * kMiB, stream), gpupool::OutOfMemory);
  gpupool::sim::script(kDevice, "");
  pool.enable_peer(kDevice);
}

TEST(Log, GoesToAFunction) {
  std::vector<std::string> lines;
  gpupool::set_log(
      GPUPOOL_LOG_INFO,
      [](void* user, int32_t, const char* line) {
        static_cast<std::vector<std::string>*>(user)->emplace_back(line);
      },
      &lines);
  { const Pool pool(kSim); }
  gpupool::set_log(GPUPOOL_LOG_OFF);
  EXPECT_FALSE(lines.empty());
}

}  // namespace
