// SPDX-License-Identifier: Apache-2.0
// Rings of recordings: files that make way while threads allocate, fail, come and go.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pool/pool_under_test.hpp"
#include "support/own_folder.hpp"
#include "watch/journal.hpp"

namespace pool_test {
namespace {

namespace fs = std::filesystem;
namespace internal = gpupool::internal;

constexpr int kTurns = kIsSanitized ? 100 : 10'000;

size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

uint64_t resident_bytes() {
  uint64_t all = 0;
  uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

class Ring : public testing::Test {
 protected:
  void SetUp() override {
    configure_device(0, 2);
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_SIM;
    config.limit_bytes = 64 * kMiB;
    ASSERT_EQ(gpupool_create(&config, &pool_), GPUPOOL_SUCCESS);
  }
  void TearDown() override {
    (void)gpupool_record_stop();  // of a test that has failed
    EXPECT_EQ(gpupool_set_log(nullptr, nullptr, GPUPOOL_LOG_OFF), GPUPOOL_SUCCESS);
    EXPECT_EQ(gpupool_destroy(pool_), GPUPOOL_SUCCESS);
  }

  gpupool_status_t start(const std::string& last) {
    return gpupool_record_start((path_ + ",last=" + last).c_str(), 0);
  }
  void take_and_give(uint64_t bytes = 512) {
    gpupool_ptr_t block = 0;
    EXPECT_EQ(gpupool_malloc(pool_, bytes, 0, &block), GPUPOOL_SUCCESS);
    EXPECT_EQ(gpupool_free(pool_, block, 0), GPUPOOL_SUCCESS);
  }
  void fail() {
    gpupool_ptr_t block = 0;
    EXPECT_EQ(gpupool_malloc(pool_, 65 * kMiB, 0, &block), GPUPOOL_ERROR_OVER_LIMIT);
  }
  /// Half a MiB of events, and a malloc, which notices.
  void turn() {
    const std::string text(255, 'm');
    for (int i = 0; i < 2100; ++i) (void)gpupool_mark(text.c_str());
    take_and_give();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }

  OwnFolder folder_;
  std::string path_ = folder_.path() / "ring";
  gpupool_t* pool_ = nullptr;
};

using Names = std::vector<std::string>;

/// Some threads hold a part of an old file, each of another one; they must not hold more.
TEST_F(Ring, TenThousandFilesLeaveNothingBehind) {
  constexpr int kIdle = 8;
  ASSERT_EQ(start("1MiB"), GPUPOOL_SUCCESS);
  std::atomic<int> turns{0};
  std::vector<std::thread> idle;
  for (int number = 0; number < kIdle; ++number) {
    idle.emplace_back([&, number] {
      while (turns.load() < number * 10) std::this_thread::yield();
      take_and_give();
      while (turns.load() < kTurns) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      take_and_give();
    });
  }
  size_t mappings_before = 0;
  uint64_t resident_before = 0;
  for (; turns.load() < kTurns; ++turns) {
    turn();
    if (turns.load() % 50 == 49) std::thread([&] { take_and_give(); }).join();  // one that ends
    if (turns.load() != kTurns / 2) continue;
    mappings_before = mappings();
    resident_before = resident_bytes();
  }
  if (!kIsSanitized) {  // a sanitizer's own memory grows
    EXPECT_LE(mappings(), mappings_before + kIdle);
    EXPECT_LE(resident_bytes(), resident_before + 8 * kMiB);
  }
  for (std::thread& thread : idle) thread.join();
  ASSERT_EQ(gpupool_record_stop(), GPUPOOL_SUCCESS);
  EXPECT_EQ(names(), (Names{"ring", "ring.old"}));
  EXPECT_LE(fs::file_size(path_ + ".old"), kMiB);
}

/// A thread that was interrupted goes on writing: what it writes is in no file, and no data race.
TEST_F(Ring, ALateWriterOfAClosedFileWritesNowhere) {
  internal::Journal journal;
  ASSERT_TRUE(ok(journal.create(path_.c_str(), false)));
  std::atomic<uint8_t*> chunk{nullptr};
  std::atomic<bool> is_closed{false};
  std::thread writer([&] {
    uint8_t* const own = journal.claim_chunk(1);
    std::memcpy(own + sizeof(internal::ChunkHeader), "early", 5);
    chunk.store(own);
    while (!is_closed.load(std::memory_order_relaxed))
      std::this_thread::yield();  // nothing orders what follows
    std::memcpy(own + sizeof(internal::ChunkHeader), "later", 5);
    EXPECT_NE(journal.claim_chunk(3), nullptr);
  });
  while (chunk.load() == nullptr) std::this_thread::yield();
  journal.close(2);
  is_closed.store(true, std::memory_order_relaxed);
  writer.join();
  std::ifstream file(path_);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text.size(), internal::kJournalHeader + internal::kJournalChunk);
  EXPECT_NE(text.find("early"), std::string::npos);
}

TEST_F(Ring, FilesMakeWayWhileThreadsAllocateAndFail) {
  ASSERT_EQ(start("1MiB"), GPUPOOL_SUCCESS);
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      for (int i = 0; i < (kIsSanitized ? 30'000 : 300'000); ++i)
        take_and_give(512 * static_cast<uint64_t>(1 + i % 40));
      if (number % 2 == 0) fail();
    });
  }
  for (std::thread& thread : threads) thread.join();
  take_and_give();  // in case another thread was at it where one failed
  ASSERT_EQ(gpupool_record_stop(), GPUPOOL_SUCCESS);
  EXPECT_EQ(names(), (Names{"ring", "ring.old", "ring.oom"}));
}

TEST_F(Ring, TheFirstFailureIsKept) {
  ASSERT_EQ(start("10min"), GPUPOOL_SUCCESS);
  take_and_give();
  EXPECT_EQ(names(), Names{"ring"});
  fail();
  EXPECT_NE(last_message().find("malloc of 68157440 bytes (65.00 MiB) failed: over the pool's limit of "),
            std::string::npos)
      << last_message();
  EXPECT_EQ(names(), (Names{"ring", "ring.oom"}));
  struct stat first {};
  struct stat later {};
  ASSERT_EQ(stat((path_ + ".oom").c_str(), &first), 0);
  for (int i = 0; i < 10; ++i) {
    fail();
    take_and_give();
  }
  ASSERT_EQ(stat((path_ + ".oom").c_str(), &later), 0);
  EXPECT_EQ(first.st_ino, later.st_ino);
  ASSERT_EQ(gpupool_record_stop(), GPUPOOL_SUCCESS);
  EXPECT_EQ(names(), (Names{"ring", "ring.oom"}));
}

TEST_F(Ring, AFailureIsNotKeptWithoutARing) {
  ASSERT_EQ(gpupool_record_start(path_.c_str(), 0), GPUPOOL_SUCCESS);
  fail();
  take_and_give();
  ASSERT_EQ(gpupool_record_stop(), GPUPOOL_SUCCESS);
  EXPECT_EQ(names(), Names{"ring"});
}

TEST_F(Ring, TimeMakesWayToo) {
  ASSERT_EQ(start("1s"), GPUPOOL_SUCCESS);
  take_and_give();
  EXPECT_EQ(names(), Names{"ring"});
  std::this_thread::sleep_for(std::chrono::milliseconds(510));
  take_and_give();
  EXPECT_EQ(names(), (Names{"ring", "ring.old"}));
  ASSERT_EQ(gpupool_record_stop(), GPUPOOL_SUCCESS);
}

TEST_F(Ring, ValuesThatAreNoneAreRefused) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "which may be a time or a size: write 10min or 10MiB"},
      {"10", "which may be a time or a size: write 10min or 10MiB"},
      {"10m", "which may be a time or a size: write 10min or 10MiB"},
      {"0MiB", "not a size such as 512MiB or a time such as 10min"},
      {"-1s", "not a size such as 512MiB or a time such as 10min"},
      {"512KiB", "less than 1MiB"},
      {"5GiB", "more than 4GiB"},
      {"999ms", "less than 1s"},
      {"9000h", "not a size such as 512MiB or a time such as 10min"},
      {"50%", "not a size such as 512MiB or a time such as 10min"},
      {"1MiB,x", "not a size such as 512MiB or a time such as 10min"},
  };
  for (const auto& [value, why] : kCases) {
    EXPECT_EQ(start(value), GPUPOOL_ERROR_INVALID_ARGUMENT) << value;
    EXPECT_EQ(last_message(), std::string("last is \"") + value + "\", " + why);
  }
  EXPECT_EQ(gpupool_record_start(",last=1MiB", 0), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(names(), Names{});
  // Another comma is the name's.
  ASSERT_EQ(gpupool_record_start((path_ + ",first=1MiB").c_str(), 0), GPUPOOL_SUCCESS);
  ASSERT_EQ(gpupool_record_stop(), GPUPOOL_SUCCESS);
  EXPECT_EQ(names(), Names{"ring,first=1MiB"});
}

TEST_F(Ring, FilesOfOthersAreLeftAlone) {
  for (const char* const suffix : {"", ".old", ".oom"}) {
    fs::create_symlink("nowhere", path_ + suffix);
    EXPECT_EQ(start("1MiB"), GPUPOOL_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(last_message().find(path_ + suffix), std::string::npos) << last_message();
    fs::remove(path_ + suffix);
    EXPECT_EQ(names(), Names{});
  }
}

void keep_line(void* user, int32_t, const char* line) {
  static_cast<std::vector<std::string>*>(user)->emplace_back(line);
}

/// A folder that has gone; the program goes on, and the log says why the recording does not.
TEST_F(Ring, WithoutRoomForTheNextFileTheRecordingEndsInWords) {
  std::vector<std::string> lines;
  const fs::path inner = folder_.path() / "inner";
  fs::create_directory(inner);
  path_ = inner / "ring";
  ASSERT_EQ(start("1MiB"), GPUPOOL_SUCCESS);
  ASSERT_EQ(gpupool_set_log(keep_line, &lines, GPUPOOL_LOG_ERROR), GPUPOOL_SUCCESS);
  fs::rename(inner, folder_.path() / "elsewhere");
  fail();
  EXPECT_NE(last_message().find("over the pool's limit"), std::string::npos) << last_message();
  ASSERT_GE(lines.size(), 1U);
  EXPECT_EQ(lines[0], "the recording has ended: the recording \"" + path_ +
                          "\" cannot be made: No such file or directory");
  take_and_give();
  EXPECT_EQ(gpupool_record_stop(), GPUPOOL_ERROR_INVALID_ARGUMENT);
  // And the next one works.
  fs::create_directory(inner);
  ASSERT_EQ(start("1MiB"), GPUPOOL_SUCCESS);
  turn();
  ASSERT_EQ(gpupool_record_stop(), GPUPOOL_SUCCESS);
}

/// Whoever takes the file away has it; the ring makes the next one.
TEST_F(Ring, AFileThatWasTakenAwayIsNoFailure) {
  ASSERT_EQ(start("1MiB"), GPUPOOL_SUCCESS);
  fs::rename(path_, path_ + ".mine");
  turn();
  turn();
  ASSERT_EQ(gpupool_record_stop(), GPUPOOL_SUCCESS);
  EXPECT_EQ(names(), (Names{"ring", "ring.mine", "ring.old"}));
}

TEST_F(Ring, AProgramMayChangeItsFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  ASSERT_EQ(gpupool_record_start("ring,last=1MiB", 0), GPUPOOL_SUCCESS);
  fs::current_path(before);
  turn();
  ASSERT_EQ(gpupool_record_stop(), GPUPOOL_SUCCESS);
  EXPECT_EQ(names(), (Names{"ring", "ring.old"}));
}

}  // namespace
}  // namespace pool_test
