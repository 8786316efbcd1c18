// SPDX-License-Identifier: Apache-2.0
// Threads that take and give back beside a ring whose files change.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "frameworks/inject/ledger.hpp"
#include "support/own_folder.hpp"
#include "watch/journal.hpp"

namespace gpupool::inject {
namespace {

constexpr uint64_t kBlock = uint64_t{1} << 20;

void take_and_give(Ledger& ledger, uint32_t pool, uint64_t first, int turns) {
  constexpr uint64_t kAtOnce = 16;
  constexpr int kBetweenRefusals = 64;
  for (int turn = 0; turn < turns; ++turn) {
    for (uint64_t at = 0; at < kAtOnce; ++at) ledger.take(first + at * kBlock, {kBlock, 0, &ledger, pool, 0});
    for (uint64_t at = 0; at < kAtOnce; ++at) ledger.give(first + at * kBlock);
    if (turn % kBetweenRefusals == 0) ledger.refuse(pool, kBlock);
  }
}

uint64_t number_in(const std::string& path, size_t offset) {
  char bytes[sizeof(uint64_t)] = {};
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset)).read(bytes, sizeof bytes);
  uint64_t number = UINT64_MAX;
  if (file) std::memcpy(&number, bytes, sizeof bytes);
  return number;
}

TEST(Ledger, ThreadsRecordWhileFilesChange) {
  const OwnFolder folder;
  const std::string path = folder.path() / "run";
  internal::Plan plan;
  ASSERT_EQ(internal::read_plan((path + ",last=1MiB").c_str(), plan), internal::kSuccess);
  Ledger& ledger = Ledger::begin(std::move(plan), false);
  constexpr int kThreads = 4;
  constexpr int kTurns = 1500;
  std::vector<std::thread> threads;
  for (int at = 0; at < kThreads; ++at) {
    const uint32_t pool = Ledger::pool_of(at, MemoryKind::device);
    ledger.describe(pool, {"device", "", kBlock});
    threads.emplace_back(
        [&ledger, pool, at] { take_and_give(ledger, pool, uint64_t{1} << (36 + at), kTurns); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(ledger.is_over());
  EXPECT_TRUE(internal::Recorder::is_on());
  for (const char* const suffix : {"", ".old", ".oom"}) {
    EXPECT_EQ(number_in(path + suffix, offsetof(internal::JournalHeader, lost)), 0) << suffix;
    EXPECT_GT(number_in(path + suffix, offsetof(internal::JournalHeader, chunks)), 0) << suffix;
  }
}

}  // namespace
}  // namespace gpupool::inject
