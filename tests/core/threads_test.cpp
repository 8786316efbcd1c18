// SPDX-License-Identifier: Apache-2.0
// What several threads may do at once with parts of core.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "core/address_map.hpp"
#include "core/budget.hpp"

namespace gpupool::internal {
namespace {

/// Runs work(number) on as many threads, all at once, and waits for them.
template <typename Work>
void run_threads(size_t count, Work work) {
  std::atomic<size_t> ready{0};
  std::vector<std::thread> threads;
  for (size_t number = 0; number < count; ++number) {
    threads.emplace_back([&, number] {
      ++ready;
      while (ready.load() < count) std::this_thread::yield();
      work(number);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(BudgetThreads, TakeNoByteTooMuch) {
  constexpr uint64_t kLimit = 1000;
  Budget budget;
  ASSERT_TRUE(budget.set_limit(kLimit));
  std::atomic<uint64_t> held{0};
  std::atomic<bool> above{false};
  run_threads(4, [&](size_t number) {
    std::mt19937 random(static_cast<unsigned>(number));
    std::vector<uint64_t> own;
    for (int step = 0; step < 20000; ++step) {
      if (random() % 2 == 0) {
        const uint64_t bytes = 1 + random() % 300;
        if (!budget.charge(bytes)) continue;
        own.push_back(bytes);
        if (held.fetch_add(bytes) + bytes > kLimit) above = true;
      } else if (!own.empty()) {
        held.fetch_sub(own.back());
        budget.refund(own.back());
        own.pop_back();
      }
    }
    for (const uint64_t bytes : own) {
      held.fetch_sub(bytes);
      budget.refund(bytes);
    }
  });
  EXPECT_FALSE(above.load());
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_TRUE(budget.charge(kLimit));
}

/// Once a lower limit is accepted, nothing is taken above it, whatever was under way.
TEST(BudgetThreads, ALowerLimitHoldsFromWhenItIsSet) {
  for (int round = 0; round < 3000; ++round) {
    Budget budget;
    bool lowered = false;
    run_threads(2, [&](size_t number) {
      if (number == 0) {
        lowered = budget.set_limit(10);
      } else if (budget.charge(100)) {
        ASSERT_TRUE(budget.used() >= 100);
      }
    });
    ASSERT_TRUE(!lowered || budget.used() <= 10) << "round " << round;
  }
}

/// One thread registers and takes away blocks that share units and that do not; others look them up. What
/// they find is nothing, or a block that was there at some time.
TEST(AddressMapThreads, FindsWhileBlocksComeAndGo) {
  constexpr size_t kBlocks = 64;
  constexpr Address kBase = uint64_t{1} << 40;
  AddressMap map;
  std::vector<Range> blocks(kBlocks);
  for (size_t i = 0; i < kBlocks; ++i) {
    // Every other one alone in its MiB, the rest four to a MiB.
    blocks[i].address = i % 2 == 0 ? kBase + i * kMiB : kBase + kGiB + i / 8 * kMiB + i * kUnit;
    blocks[i].size = kUnit;
  }
  // Always there, whatever happens around it.
  Range constant;
  constant.address = kBase + kGiB + kMiB / 2;
  map.prepare(constant.address);
  map.insert(&constant);
  std::atomic<bool> stop{false};
  std::atomic<bool> wrong{false};
  run_threads(3, [&](size_t number) {
    std::mt19937 random(static_cast<unsigned>(number));
    if (number == 0) {
      std::vector<bool> there(kBlocks, false);
      for (int step = 0; step < 40000; ++step) {
        const size_t at = random() % kBlocks;
        if (there[at]) {
          map.erase(&blocks[at]);
        } else {
          map.prepare(blocks[at].address);
          map.insert(&blocks[at]);
        }
        there[at] = !there[at];
      }
      stop = true;
      return;
    }
    while (!stop.load(std::memory_order_relaxed)) {
      const Range& wanted = blocks[random() % kBlocks];
      const Range* found = map.find(wanted.address);
      if (found != nullptr && (found < blocks.data() || found >= blocks.data() + kBlocks) &&
          found != &constant) {
        wrong = true;
      }
      if (found != nullptr && found->address / kMiB != wanted.address / kMiB) wrong = true;
      if (map.find(constant.address) != &constant) wrong = true;
    }
  });
  EXPECT_FALSE(wrong.load());
}

}  // namespace
}  // namespace gpupool::internal
