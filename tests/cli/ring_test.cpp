// SPDX-License-Identifier: Apache-2.0
// Rings of recordings, each file of them read as the command reads it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "cli/recording/live.hpp"
#include "cli/recording/recording.hpp"
#include "gpupool/gpupool.h"
#include "support/own_folder.hpp"

namespace gpupool::cli {
namespace {

/// Each free is of a block that the file knows, and no block is there twice, but for a free that a thread was
/// about to write when the file ended.
void check_whole(const std::string& path, uint64_t threads) {
  const Recording recording = read_recording(path);
  EXPECT_TRUE(recording.is_ended) << path;
  EXPECT_EQ(recording.lost, 0U) << path;
  LiveBlocks live;
  uint64_t doubled = 0;
  uint64_t late = 0;  // mallocs that the file before was to have
  for (const Happened& event : recording.events) {
    live.take(
        event, [](const LiveBlock&) {},
        [&](const LiveBlock&, const Happened& by) {
          doubled += by.kind == Kind::malloc ? 1 : 0;
          late += by.kind == Kind::have ? 1 : 0;
        });
  }
  EXPECT_EQ(live.unmatched(), 0U) << path;
  EXPECT_EQ(late, 0U) << path;
  EXPECT_LE(doubled, threads) << path;
}

ino_t number_of(const std::string& path) {
  struct stat seen {};
  return stat(path.c_str(), &seen) == 0 ? seen.st_ino : 0;
}

class Ring : public testing::Test {
 protected:
  void SetUp() override {
    gpupool_sim_config_t sim{};
    sim.struct_size = sizeof sim;
    sim.data = 2;
    ASSERT_EQ(gpupool_sim_configure(0, &sim), GPUPOOL_SUCCESS);
    gpupool_config_t config;
    ASSERT_EQ(gpupool_config_init(&config, sizeof config), GPUPOOL_SUCCESS);
    config.backend = GPUPOOL_BACKEND_SIM;
    ASSERT_EQ(gpupool_create(&config, &pool_), GPUPOOL_SUCCESS);
  }
  void TearDown() override { EXPECT_EQ(gpupool_destroy(pool_), GPUPOOL_SUCCESS); }

  gpupool_ptr_t take(uint64_t bytes) {
    gpupool_ptr_t block = 0;
    EXPECT_EQ(gpupool_malloc(pool_, bytes, 0, &block), GPUPOOL_SUCCESS);
    return block;
  }
  void give(gpupool_ptr_t block) { EXPECT_EQ(gpupool_free(pool_, block, 0), GPUPOOL_SUCCESS); }

  /// Keeps the ring's other file, if it is another than before.
  void keep_part() {
    const ino_t now = number_of(path_ + ".old");
    if (now == 0 || now == kept_) return;
    kept_ = now;
    parts_.push_back(path_ + "." + std::to_string(parts_.size()));
    EXPECT_EQ(link((path_ + ".old").c_str(), parts_.back().c_str()), 0);
  }

  OwnFolder folder_;
  std::string path_ = folder_.path() / "ring.gpt";
  gpupool_t* pool_ = nullptr;
  ino_t kept_ = 0;
  std::vector<std::string> parts_;
};

/// Threads hand blocks to each other while files make way.
TEST_F(Ring, each_file_of_many_is_whole_by_itself) {
  constexpr size_t kThreads = 4;
  constexpr size_t kParts = 60;
  std::array<std::atomic<gpupool_ptr_t>, 997> places{};
  std::atomic<bool> is_over{false};
  ASSERT_EQ(gpupool_record_start((path_ + ",last=1MiB").c_str(), 0), GPUPOOL_SUCCESS);
  std::vector<std::thread> threads;
  for (size_t number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      uint64_t pick = number + 1;
      while (!is_over.load(std::memory_order_relaxed)) {
        pick = pick * 6364136223846793005 + 1442695040888963407;
        const gpupool_ptr_t mine = pick >> 62 != 0 ? take(512 * (1 + (pick >> 40) % 40)) : 0;
        give(places[(pick >> 33) % places.size()].exchange(mine));
        if (number != 0) continue;
        keep_part();
        if (parts_.size() == kParts) is_over.store(true);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(gpupool_record_stop(), GPUPOOL_SUCCESS);
  for (auto& place : places) give(place.load());
  check_whole(path_, 0);
  for (const std::string& part : parts_) check_whole(part, kThreads);
}

}  // namespace
}  // namespace gpupool::cli
