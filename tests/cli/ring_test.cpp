// SPDX-License-Identifier: Apache-2.0
// Rings of recordings, each file of them read as the command reads it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cli/recording/live.hpp"
#include "cli/recording/recording.hpp"
#include "pool/pool_under_test.hpp"
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
  Ring() {
    pool_test::configure_device(0, 2);
    config_.backend = GPUPOOL_BACKEND_SIM;
    config_.limit_bytes = 64 * pool_test::kMiB;
  }

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
  gpupool_config_t config_ = pool_test::empty_config();
  ino_t kept_ = 0;
  std::vector<std::string> parts_;
};

/// Threads hand blocks to each other while files make way.
TEST_F(Ring, each_file_of_many_is_whole_by_itself) {
  constexpr size_t kThreads = 4;
  constexpr size_t kParts = 60;
  pool_test::PoolUnderTest pool(config_);
  std::array<std::atomic<gpupool_ptr_t>, 997> places{};
  std::atomic<bool> is_over{false};
  ASSERT_EQ(gpupool_record_start((path_ + ",last=1MiB").c_str(), 0), GPUPOOL_SUCCESS);
  std::vector<std::thread> threads;
  for (size_t number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      uint64_t pick = number + 1;
      while (!is_over.load(std::memory_order_relaxed)) {
        pick = pick * 6364136223846793005 + 1442695040888963407;
        const gpupool_ptr_t mine = pick >> 62 != 0 ? pool.malloc(512 * (1 + (pick >> 40) % 40)) : 0;
        pool.free(places[(pick >> 33) % places.size()].exchange(mine));
        if (number != 0) continue;
        keep_part();
        if (parts_.size() == kParts) is_over.store(true);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(gpupool_record_stop(), GPUPOOL_SUCCESS);
  for (auto& place : places) pool.free(place.load());
  check_whole(path_, 0);
  for (const std::string& part : parts_) check_whole(part, kThreads);
}

/// Marks and failures are rare, and what a program wants known: none falls between two files.
TEST_F(Ring, each_mark_and_each_failure_is_in_one_file) {
  constexpr size_t kParts = 60;
  constexpr uint64_t kTooLarge = 65 * pool_test::kMiB;
  pool_test::PoolUnderTest pool(config_);
  std::atomic<bool> is_over{false};
  ASSERT_EQ(gpupool_record_start((path_ + ",last=1MiB").c_str(), 0), GPUPOOL_SUCCESS);
  // The first failure ends a file of its own.
  EXPECT_EQ(pool.try_malloc(kTooLarge), GPUPOOL_ERROR_OVER_LIMIT);
  uint64_t marks = 0;
  std::thread marker([&] {
    for (; !is_over.load(); ++marks) {
      EXPECT_EQ(gpupool_mark(std::to_string(marks).c_str()), GPUPOOL_SUCCESS);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  uint64_t failures = 1;
  std::thread failer([&] {
    for (; !is_over.load(); ++failures) {
      EXPECT_EQ(pool.try_malloc(kTooLarge + failures), GPUPOOL_ERROR_OVER_LIMIT);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  while (parts_.size() < kParts) {
    for (int pair = 0; pair < 64; ++pair) pool.free(pool.malloc(512));
    keep_part();
  }
  is_over.store(true);
  marker.join();
  failer.join();
  ASSERT_EQ(gpupool_record_stop(), GPUPOOL_SUCCESS);
  parts_.push_back(path_);
  parts_.push_back(path_ + ".oom");
  std::set<std::string> marked;
  std::set<uint64_t> failed;
  for (const std::string& part : parts_) {
    const Recording recording = read_recording(part);
    marked.insert(recording.marks.begin(), recording.marks.end());
    for (const Happened& event : recording.events) {
      if (event.kind == Kind::failed) failed.insert(event.bytes);
    }
  }
  EXPECT_EQ(marked.size(), marks);
  EXPECT_EQ(failed.size(), failures);
}

/// The tag and the call site of a large block last through all files, however long ago its malloc was.
TEST_F(Ring, large_blocks_keep_their_tags_and_sites) {
  constexpr size_t kParts = 4;
  pool_test::PoolUnderTest pool(config_);
  ASSERT_EQ(gpupool_tag_push("before"), GPUPOOL_SUCCESS);
  const gpupool_ptr_t before = pool.malloc(8 * pool_test::kMiB);
  ASSERT_EQ(gpupool_tag_pop(), GPUPOOL_SUCCESS);
  ASSERT_EQ(gpupool_record_start((path_ + ",last=1MiB").c_str(), GPUPOOL_RECORD_NATIVE_STACKS),
            GPUPOOL_SUCCESS);
  ASSERT_EQ(gpupool_tag_push("weights"), GPUPOOL_SUCCESS);
  const gpupool_ptr_t weights = pool.malloc(16 * pool_test::kMiB);
  ASSERT_EQ(gpupool_tag_pop(), GPUPOOL_SUCCESS);
  while (parts_.size() < kParts) {
    for (int pair = 0; pair < 64; ++pair) pool.free(pool.malloc(512));
    keep_part();
  }
  ASSERT_EQ(gpupool_record_stop(), GPUPOOL_SUCCESS);
  const Recording recording = read_recording(path_);
  std::map<uint64_t, Happened> found;
  for (const Happened& event : recording.events) {
    if (event.kind == Kind::have) found[event.address] = event;
  }
  ASSERT_EQ(found.count(before), 1U);
  ASSERT_EQ(found.count(weights), 1U);
  EXPECT_EQ(recording.tag(found[before].tag), "before");
  EXPECT_EQ(recording.tag(found[weights].tag), "weights");
  for (const gpupool_ptr_t block : {before, weights}) {
    EXPECT_NE(found[block].stack, 0U);
    EXPECT_EQ(recording.stacks.count(found[block].stack), 1U);
    pool.free(block);
  }
}

}  // namespace
}  // namespace gpupool::cli
