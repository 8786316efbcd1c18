// SPDX-License-Identifier: Apache-2.0
// The figures of `gpupool run --hooks` on 16 threads, without a driver that would slow them down.
#include "frameworks/audit/account.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "frameworks/audit/ledger.hpp"

namespace gpupool::audit {
namespace {

constexpr int kThreads = 16;
constexpr int kTurns = 20000;

template <typename Function>
void on_threads(Function work) {
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) threads.emplace_back([&, number] { work(number); });
  for (std::thread& each : threads) each.join();
}

class AccountThreads : public testing::Test {
 protected:
  void SetUp() override {
    cap = 1000;
    ASSERT_TRUE(Ledger::begin());
  }
  void TearDown() override { cap = UINT64_MAX; }
};

TEST_F(AccountThreads, AllThatIsTakenIsNeverMoreThanTheCap) {
  Account& account = Ledger::get().device(0).account;
  std::atomic<uint64_t> out{0};
  std::atomic<int> exceeded{0};
  std::atomic<int> refused{0};
  on_threads([&](int number) {
    std::minstd_rand pick(static_cast<unsigned>(number + 1));
    for (int turn = 0; turn < kTurns; ++turn) {
      const uint64_t bytes = pick() % 300;
      if (!account.take(bytes)) {
        ++refused;
        continue;
      }
      if ((out += bytes) > cap) ++exceeded;
      if (turn % 16 == 0) std::this_thread::yield();  // so that others meet the cap
      out -= bytes;
      account.give(bytes);
    }
  });
  EXPECT_EQ(exceeded, 0);
  EXPECT_LE(account.peak(), cap);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(account.used(), 0U);
}

TEST_F(AccountThreads, BlocksAndChunksEndWithWhatTheyTook) {
  Ledger& ledger = Ledger::get();
  Account& account = ledger.device(0).account;
  on_threads([&](int number) {
    const uint64_t base = static_cast<uint64_t>(number + 1) << 40;
    for (uint64_t turn = 0; turn < kTurns; ++turn) {
      if (!account.take(8)) continue;
      const uint64_t address = base + turn % 32 * 512;
      if (turn % 3 != 0) {
        ledger.put(address, {8, nullptr, 0, Kind::memory});
        Block block{};
        ASSERT_TRUE(ledger.remove(address, block));
        ledger.end(block);
        continue;
      }
      ledger.create(address, 0, 8);
      ledger.map(base + 4096 * 512, 8, address);
      const uint64_t chunk = ledger.release(address);
      ASSERT_NE(chunk, 0U);
      ledger.drop(chunk);
      ledger.unmap(base + 4096 * 512, 8);
    }
  });
  EXPECT_EQ(account.used(), 0U);
}

TEST_F(AccountThreads, PoolsAreChargedNoLessThanTheyHold) {
  Account& account = Ledger::get().device(0).account;
  Pooled& pooled = Ledger::get().device(0).graphs;
  std::atomic<uint64_t> held{0};  // of a pool that takes what is missing, and keeps it
  on_threads([&](int) {
    for (int turn = 0; turn < kTurns; ++turn) {
      if (!pooled.take(account, 7)) continue;
      held += 1;
      pooled.land(account);
      const uint64_t changes = pooled.changes();
      pooled.settle(account, held, changes);
      held -= 1;
      pooled.give(account, 7);
    }
  });
  pooled.settle(account, 5, pooled.changes());
  EXPECT_EQ(account.used(), 5U);
  EXPECT_LE(account.peak(), cap);
}

TEST_F(AccountThreads, LessIsNotBelievedWhileAnAllocationIsUnderWay) {
  Account& account = Ledger::get().device(0).account;
  Pooled& pooled = Ledger::get().device(0).graphs;
  ASSERT_TRUE(pooled.take(account, 100));
  const uint64_t before = pooled.changes();
  pooled.give(account, 100);
  pooled.settle(account, 0, before);
  EXPECT_EQ(account.used(), 100U);  // it is under way
  pooled.land(account);
  pooled.settle(account, 500, before);
  EXPECT_EQ(account.used(), 500U);
  pooled.settle(account, 0, before);
  EXPECT_EQ(account.used(), 500U);  // looked at before the other
  pooled.settle(account, 0, pooled.changes());
  EXPECT_EQ(account.used(), 0U);
}

TEST_F(AccountThreads, WhatCannotBeWrittenDownIsSaid) {
  Ledger& ledger = Ledger::get();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit none{1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  const bool is_put = ledger.put(4096, {8, nullptr, 0, Kind::memory});
  const bool is_created = ledger.create(4096, 0, 8);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_FALSE(is_put);
  EXPECT_FALSE(is_created);
  EXPECT_EQ(ledger.device(0).account.given(static_cast<size_t>(Kind::memory)), 0U);
  EXPECT_TRUE(ledger.put(4096, {8, nullptr, 0, Kind::memory}));
  EXPECT_TRUE(ledger.create(4096, 0, 8));
}

TEST(AuditTable, HasWhatAMapHas) {
  Table<uint64_t> table{};
  std::map<uint64_t, uint64_t> model;
  std::minstd_rand pick(7);
  for (int turn = 0; turn < 200000; ++turn) {
    const uint64_t key = (pick() % 700 + 1) << 21;  // as chunks lie
    uint64_t removed = 0;
    if (pick() % 2 == 0) {
      ASSERT_TRUE(table.put(key, static_cast<uint64_t>(turn)));
      model[key] = static_cast<uint64_t>(turn);
    } else if (table.remove(key, removed)) {
      ASSERT_EQ(model.at(key), removed);
      model.erase(key);
    } else {
      ASSERT_FALSE(model.contains(key));
    }
  }
  table.remove_if([](uint64_t value) { return value % 2 == 0; });
  std::erase_if(model, [](const auto& each) { return each.second % 2 == 0; });
  for (uint64_t key = 1; key <= 700; ++key) {
    const uint64_t* const found = table.find(key << 21);
    ASSERT_EQ(found != nullptr, model.contains(key << 21)) << key;
    if (found != nullptr) {
      EXPECT_EQ(*found, model.at(key << 21));
    }
  }
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_FALSE(table.put(0, 1));
}

TEST(AuditTable, GrowsAndShrinks) {
  constexpr uint64_t kMany = 20000;
  constexpr uint64_t kLeft = 10;
  Table<uint64_t> table{};
  for (int turn = 0; turn < 3; ++turn) {
    for (uint64_t key = 1; key <= kMany; ++key) ASSERT_TRUE(table.put(key << 9, key));
    uint64_t removed = 0;
    for (uint64_t key = kLeft + 1; key <= kMany; ++key) ASSERT_TRUE(table.remove(key << 9, removed));
    for (uint64_t key = 1; key <= kLeft; ++key) ASSERT_EQ(*table.find(key << 9), key);
    EXPECT_EQ(table.find((kLeft + 1) << 9), nullptr);
  }
}

}  // namespace
}  // namespace gpupool::audit
