// SPDX-License-Identifier: Apache-2.0
// Members of a group: real processes that come, take, ask, stop and die.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "share_fixture.hpp"

namespace gpupool::internal::share {
namespace {

class MemberTest : public ShareTest {};

TEST_F(MemberTest, TakesUpToTheLimitAndPutsBack) {
  const auto member = join();
  EXPECT_TRUE(member->charge(kTotal - 512));
  EXPECT_FALSE(member->charge(1024));
  EXPECT_EQ(member->room(), 512U);
  EXPECT_TRUE(member->charge(512));
  EXPECT_EQ(used(), kTotal);
  member->refund(kGiB);
  EXPECT_EQ(used(), kTotal - kGiB);
  EXPECT_EQ(member->room(), kGiB);
}

TEST_F(MemberTest, AProcessHasOnePlaceHoweverManyPoolsItHas) {
  const auto first = join();
  const auto second = join();
  EXPECT_EQ(first, second);
  EXPECT_EQ(members().size(), 1U);
}

TEST_F(MemberTest, LeavingPutsEverythingBack) {
  const auto other = join();
  const pid_t child = start([&] {
    const auto member = join();
    return member->charge(3 * kGiB) && member->change_guarantee(5 * kGiB) == kSuccess && used() == 5 * kGiB
               ? 0
               : 1;
  });
  EXPECT_EQ(end_of(child), 0);
  EXPECT_EQ(used(), 0U);
}

TEST_F(MemberTest, AGuaranteeIsChargedAtOnceAndNeverRefusedLater) {
  const auto member = join();
  ASSERT_EQ(member->change_guarantee(static_cast<int64_t>(10 * kGiB)), kSuccess);
  EXPECT_EQ(used(), 10 * kGiB);
  const pid_t child = start([&] {
    const auto greedy = join();
    while (greedy->charge(kGiB)) {
    }
    return greedy->change_guarantee(static_cast<int64_t>(60 * kGiB)) == GPUPOOL_ERROR_OVER_LIMIT ? pause()
                                                                                                 : 1;
  });
  ASSERT_TRUE(soon([&] { return used() == kTotal; }));
  EXPECT_EQ(member->room(), 10 * kGiB);
  EXPECT_TRUE(member->charge(10 * kGiB));
  EXPECT_FALSE(member->charge(512));
  member->refund(10 * kGiB);
  EXPECT_EQ(used(), kTotal) << "the guarantee went with the memory";
  kill(child, SIGKILL);
  end_of(child);
}

TEST_F(MemberTest, TheBytesOfAKilledOneAreTakenByWhoNeedsThem) {
  const auto member = join();
  const pid_t child = start([&] { return join()->charge(kTotal) ? pause() : 1; });
  ASSERT_TRUE(soon([&] { return used() == kTotal; }));
  kill(child, SIGKILL);
  end_of(child);
  EXPECT_FALSE(member->charge(kGiB));
  Turn turn(member->turns(), kGiB, 1000 * kMs);
  // The device says nothing here, so that the dead one's memory stays in limbo: see the next test.
  EXPECT_FALSE(turn.wait());
  EXPECT_EQ(standing().limbo, kTotal);
}

TEST_F(MemberTest, LimboEndsWhenTheDeviceShowsTheBytesFree) {
  auto made = std::make_unique<TestOwner>();
  TestOwner& owner = *made;
  owner.free = 0;
  const auto member = join(std::move(made));
  const pid_t child = start([&] { return join()->charge(kTotal) ? pause() : 1; });
  ASSERT_TRUE(soon([&] { return used() == kTotal; }));
  kill(child, SIGKILL);
  end_of(child);
  {
    Turn turn(member->turns(), kGiB, 20 * kMs);
    EXPECT_FALSE(turn.wait());
  }
  EXPECT_EQ(standing().limbo, kTotal);
  owner.free = kTotal;
  const uint64_t start = now_ns();
  Turn turn(member->turns(), kGiB, 1000 * kMs);
  EXPECT_TRUE(turn.wait());
  EXPECT_LT(now_ns() - start, 500 * kMs);
  EXPECT_TRUE(member->charge(kGiB));
  EXPECT_EQ(standing().limbo, 0U);
}

TEST_F(MemberTest, AChildOfForkIsNoMember) {
  const auto member = join();
  ASSERT_TRUE(member->charge(kGiB));
  const pid_t child = start([&] {
    member->refund(kGiB);  // does nothing
    if (member->is_member() || used() != kGiB) return 1;
    const auto own = join();  // one of its own
    return own->slot() != member->slot() && own->charge(kGiB) && used() == 2 * kGiB ? 0 : 2;
  });
  EXPECT_EQ(end_of(child), 0);
  EXPECT_EQ(used(), kGiB);
}

/// The child has no mapping of the region, so that it does not keep its dead parent's place.
TEST_F(MemberTest, ALivingChildDoesNotKeepItsDeadParentsPlace) {
  const auto watcher = join();
  Common<std::atomic<pid_t>> grandchild;
  const pid_t child = start([&] {
    const auto member = join();
    (void)member->charge(8 * kGiB);
    grandchild->store(start([] { return pause(); }));
    return pause();
  });
  ASSERT_TRUE(soon([&] { return grandchild->load() != 0 && used() == 8 * kGiB; }));
  kill(child, SIGKILL);
  end_of(child);
  EXPECT_EQ(used_after_repair(), 0U);
  kill(grandchild->load(), SIGKILL);
}

TEST_F(MemberTest, F13_TheLastPlaceIsTheLast) {
  Common<std::atomic<int>> joined;
  Common<std::atomic<int>> refused;
  std::vector<pid_t> children;
  constexpr int kJoins = 1024;
  for (int i = 0; i < kJoins; ++i) {
    children.push_back(start([&] {
      std::shared_ptr<Member> member;
      const Status status = share::join(place_, ~uint64_t{0}, std::make_unique<TestOwner>(), member);
      ++*(status == kSuccess ? joined : refused);
      if (status != kSuccess) return status == GPUPOOL_ERROR_UNAVAILABLE ? 0 : 1;
      while (joined->load() + refused->load() < kJoins) usleep(10'000);
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(end_of(child), 0);
  EXPECT_EQ(joined->load(), static_cast<int>(kSlots));
  EXPECT_EQ(refused->load(), kJoins - static_cast<int>(kSlots));
  EXPECT_EQ(used(), 0U);
  EXPECT_NE(join(), nullptr);
}

/// Of the listener's thread, while nobody asks for anything.
TEST_F(MemberTest, F15_AnIdleMemberIsNotWoken) {
  const auto member = join();
  const auto switches = [] {
    uint64_t sum = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream comm(task.path() / "comm");
      std::string name;
      std::getline(comm, name);
      if (name != "gpupool-share") continue;
      std::ifstream status(task.path() / "status");
      for (std::string line; std::getline(status, line);) {
        if (line.rfind("voluntary_ctxt_switches:", 0) == 0) sum += std::stoull(line.substr(24));
      }
    }
    return sum;
  };
  usleep(50'000);
  const uint64_t before = switches();
  EXPECT_GT(before, 0U) << "there is no such thread";
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(member->charge(kGiB));
    member->refund(kGiB);
  }
  sleep(1);
  EXPECT_EQ(switches(), before);
}

TEST_F(MemberTest, P15_OthersAreNotAskedForSignals) {
  const auto member = join();
  // Every signal is blocked in the listener, so that it never runs a handler of the application's.
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm");
    std::string name;
    std::getline(comm, name);
    if (name != "gpupool-share") continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("SigBlk:", 0) != 0) continue;
      const uint64_t blocked = std::stoull(line.substr(7), nullptr, 16);
      EXPECT_EQ(blocked & (uint64_t{1} << (SIGTERM - 1)), uint64_t{1} << (SIGTERM - 1));
      EXPECT_EQ(blocked & (uint64_t{1} << (SIGUSR1 - 1)), uint64_t{1} << (SIGUSR1 - 1));
    }
  }
}

/// A member whose figures are nonsense makes others fail to get memory at worst.
TEST_F(MemberTest, AMemberThatLiesHurtsNobodysMemory) {
  const auto asker = join();
  ASSERT_TRUE(asker->charge(kGiB));
  File file;
  ASSERT_EQ(open_region(place_, false, file), kSuccess);
  Layout* layout = nullptr;
  ASSERT_EQ(map_region(file, layout), kSuccess);
  std::mt19937_64 random(7);
  const uint32_t liar = 200;
  for (int i = 0; i < 300; ++i) {
    Slot& slot = layout->slots[liar];
    for (Number* each : {&slot.reserved, &slot.live, &slot.guaranteed, &slot.given, &slot.taken, &slot.ticket,
                         &slot.want, &slot.deadline, &slot.pid, &slot.uid, &slot.limit, &slot.asked,
                         &slot.asked_until, &slot.dead_since}) {
      each->store(random() >> (random() % 64));
    }
    slot.account.state.store(random());
    slot.account.intent.store(random());
    slot.account.done.store(random());
    slot.priority.store(static_cast<int32_t>(random()));
    slot.answered.store(static_cast<uint32_t>(random()));
    layout->header.used.store(random());
    layout->header.limit.store(random());
    layout->header.foreign.store(random());
    layout->header.tickets.store(random());
    for (Number& each : layout->header.waiting) each.store(random());
    (void)asker->charge(kGiB);
    (void)asker->room();
    {
      Turn turn(asker->turns(), kGiB, kMs);
      (void)turn.wait();
    }
    asker->refund(kGiB);
    (void)members();
    (void)standing();
  }
  layout->header.limit.store(kTotal / kUnitBytes);
  for (Number& each : layout->header.waiting) each.store(0);
  unmap_region(layout);
  View view;
  ASSERT_EQ(view.open(place_), kSuccess);
  int64_t off = 0;
  EXPECT_EQ(view.repair(kTotal, off), kSuccess);
  EXPECT_EQ(view.repair(kTotal, off), kSuccess);
  EXPECT_EQ(off, 0);
}

TEST_F(MemberTest, WhatWasTamperedWithIsRepaired) {
  const auto member = join();
  ASSERT_TRUE(member->charge(3 * kGiB));
  File file;
  ASSERT_EQ(open_region(place_, false, file), kSuccess);
  Layout* layout = nullptr;
  ASSERT_EQ(map_region(file, layout), kSuccess);
  const uint64_t word = layout->header.used.load();
  layout->header.used.store(word::make(77, word::writer_of(word), word::number_of(word)));
  unmap_region(layout);
  View view;
  ASSERT_EQ(view.open(place_), kSuccess);
  int64_t off = 0;
  ASSERT_EQ(view.repair(~uint64_t{0}, off), kSuccess);
  EXPECT_EQ(off, 77 * 512 - static_cast<int64_t>(3 * kGiB));
  EXPECT_EQ(used(), 3 * kGiB);
  member->refund(kGiB);
  EXPECT_EQ(used(), 2 * kGiB);
}

TEST_F(MemberTest, LimitsGuaranteesAndPrioritiesAreSetFromOutside) {
  const auto member = join();
  View view;
  ASSERT_EQ(view.open(place_), kSuccess);
  ASSERT_EQ(view.set_limit(8 * kGiB), kSuccess);
  EXPECT_FALSE(member->charge(9 * kGiB));
  EXPECT_TRUE(member->charge(8 * kGiB));
  member->refund(8 * kGiB);
  ASSERT_EQ(view.set_limit_of(member->slot(), 2 * kGiB), kSuccess);
  EXPECT_FALSE(member->charge(3 * kGiB));
  EXPECT_EQ(member->room(), 2 * kGiB);
  ASSERT_EQ(view.set_guarantee_of(member->slot(), 4 * kGiB), kSuccess);
  EXPECT_EQ(used(), 4 * kGiB);
  EXPECT_EQ(view.set_guarantee_of(member->slot(), 9 * kGiB), GPUPOOL_ERROR_OVER_LIMIT);
  EXPECT_EQ(used(), 4 * kGiB);
  ASSERT_EQ(view.set_priority_of(member->slot(), -2), kSuccess);
  EXPECT_EQ(members().at(0).priority, -2);
  EXPECT_EQ(view.set_priority_of(member->slot(), 9), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(view.set_priority_of(member->slot() + 1, 0), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(view.set_limit_of(kSlots, kGiB), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(view.set_limit(0), GPUPOOL_ERROR_INVALID_ARGUMENT);
}

/// Many processes at once, one of which is killed again and again: the sum is exact and never over the limit.
uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* const text = getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// For longer runs: GPUPOOL_KILL_PROCESSES=16 GPUPOOL_KILL_OPERATIONS=1000000000. What counts are changes of
/// the word; a process that is killed does not count its last thousand.
TEST_F(MemberTest, P6_F3_SumsAreExactWhereProcessesAreKilledAtRandom) {
  const uint64_t processes = number_from("GPUPOOL_KILL_PROCESSES", 6);
  const uint64_t enough = number_from("GPUPOOL_KILL_OPERATIONS", 100'000);
  const auto watcher = join();
  Common<std::atomic<uint64_t>> operations;
  // Each takes up to a third, so that there is seldom room for all.
  const auto work = [&](uint64_t seed) {
    const auto member = join();
    std::mt19937_64 random(seed);
    uint64_t held = 0;
    for (;;) {
      uint64_t done = 0;
      while (done < 1000) {
        const uint64_t bytes = (1 + random() % 2048) * 2 * kMiB;
        if (random() % 2 == 0 && held < kTotal / 3 && member->charge(bytes)) {
          held += bytes;
          ++done;
        } else if (held != 0) {
          const uint64_t part = std::min(held, bytes);
          member->refund(part);
          held -= part;
          ++done;
        }
      }
      *operations += done;
    }
    return 1;
  };
  std::vector<pid_t> children;
  for (uint64_t seed = 0; seed < processes; ++seed) children.push_back(start([&] { return work(seed); }));
  std::mt19937_64 random(1);
  std::atomic<bool> ends{false};
  std::atomic<uint64_t> most{0};
  std::thread checker([&] {
    View view;
    (void)view.open(place_);
    while (!ends.load()) most.store(std::max(most.load(), view.standing().used));
  });
  // For five seconds and, where the machine is busy, until enough was killed and done to say anything.
  const uint64_t end = now_ns() + 5000 * kMs;
  uint64_t kills = 0;
  for (uint64_t seed = 100; now_ns() < end || kills <= 20 || operations->load() < enough; ++seed) {
    usleep(static_cast<useconds_t>(random() % 4000));
    pid_t& child = children[random() % children.size()];
    kill(child, SIGKILL);
    end_of(child);
    ++kills;
    child = start([&] { return work(seed); });
    View view;
    int64_t off = 0;
    if (view.open(place_) == kSuccess && view.repair(kTotal, off) == kSuccess) {
      ASSERT_EQ(off, 0) << "after " << kills << " kills";
    }
  }
  ends.store(true);
  checker.join();
  for (const pid_t child : children) kill(child, SIGKILL);
  for (const pid_t child : children) end_of(child);
  EXPECT_LE(most.load(), kTotal);
  EXPECT_EQ(used_after_repair(), 0U);
  RecordProperty("kills", std::to_string(kills));
  RecordProperty("operations", std::to_string(operations->load()));
}

}  // namespace
}  // namespace gpupool::internal::share
