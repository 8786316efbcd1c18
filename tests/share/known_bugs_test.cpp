// SPDX-License-Identifier: Apache-2.0
// What others got wrong who share a device between processes: docs/inside/sharing.md has the list.
#include <signal.h>
#include <sys/ptrace.h>

#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "pools_fixture.hpp"

namespace gpupool::internal::share {
namespace {

class KnownBugs : public PoolsTest {
 protected:
  /// Runs `work` in a child, one instruction at a time, with `look` before each. Returns how many there were.
  template <typename Work, typename Look>
  static int step_through(Work work, Look look) {
    Common<std::atomic<bool>> is_through;
    const pid_t child = start([&] {
      return work(
          [&] {
            ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
            raise(SIGSTOP);
          },
          [&] { *is_through = true; });
    });
    int status = 0;
    waitpid(child, &status, 0);
    int instructions = 0;
    for (; WIFSTOPPED(status) && !*is_through && !HasFailure(); ++instructions) {
      look(instructions);
      ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
      waitpid(child, &status, 0);
    }
    kill(child, SIGKILL);
    if (WIFSTOPPED(status)) end_of(child);
    return instructions;
  }

  /// What a death at this moment would leave: a copy of the region, in which nobody lives. Looked at only
  /// where the instruction before has changed it.
  void expect_whole_after_death_now(const OwnFolder& copies, int instructions) {
    Place copy = place_;
    copy.folder = copies.path().string();
    std::ifstream file(path(), std::ios::binary);
    std::string bytes(kRegionBytes, '\0');
    file.read(bytes.data(), kRegionBytes);
    if (bytes == before_) return;
    ++states_;
    before_ = bytes;
    std::ofstream(copy.path(), std::ios::binary | std::ios::trunc) << bytes;
    std::filesystem::permissions(copy.path(), std::filesystem::perms(0600));
    View view;
    ASSERT_EQ(view.open(copy), kSuccess) << last_error().message;
    (void)view.members();
    (void)view.standing();
    int64_t off = -1;
    ASSERT_EQ(view.repair(kCapacity, off), kSuccess) << last_error().message;
    ASSERT_EQ(off, 0) << "a death after " << instructions << " instructions";
    ASSERT_EQ(view.standing().used, 0U) << "a death after " << instructions << " instructions";
    ASSERT_TRUE(view.members().empty());
  }

  template <typename Act>
  void die_at_each_instruction(Act act) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer has too many instructions";
#endif
    const OwnFolder copies;
    const int count = step_through(act, [&](int at) { expect_whole_after_death_now(copies, at); });
    EXPECT_GT(count, 50) << "processes cannot be single-stepped here";
    EXPECT_GT(states_, 5);
  }

  std::string before_;
  int states_ = 0;  // of the region, one after each change
};

/// HAMi-core: who dies while it joins leaves a lock that nobody holds; or an odd sequence, on which all
/// readers spin.
TEST_F(KnownBugs, P1_P2_F1_ADeathWhileJoiningTakingAndLeaving) {
  EXPECT_EQ(end_of(start([&] { return join() != nullptr ? 0 : 1; })), 0);  // makes the region
  die_at_each_instruction([&](auto begin, auto through) {
    begin();
    auto member = join();
    (void)member->charge(3 * kGiB);
    (void)member->change_guarantee(static_cast<int64_t>(4 * kGiB));
    (void)member->charge(kGiB);
    member->refund(2 * kGiB);
    member.reset();
    through();
    return 0;
  });
}

/// Reclaiming what a dead one left, and dying over it.
TEST_F(KnownBugs, P1_P2_F1_ADeathWhileReclaiming) {
  const pid_t dead = start([&] { return join()->charge(5 * kGiB) ? pause() : 1; });
  ASSERT_TRUE(soon([&] { return std::filesystem::exists(path()) && used() == 5 * kGiB; }));
  end(dead);
  die_at_each_instruction([&](auto begin, auto through) {
    File file;
    Layout* layout = nullptr;
    if (open_region(place_, false, file) != kSuccess || map_region(file, layout) != kSuccess) return 1;
    begin();
    (void)refund_the_dead(*layout, file, kCapacity);
    through();
    return 0;
  });
}

/// HAMi-core compacts its slots, so that others write to a stranger's.
TEST_F(KnownBugs, P4_PlacesStayWhereTheyAre) {
  std::vector<pid_t> children;
  for (uint64_t i = 0; i < 3; ++i) {
    children.push_back(start([&, i] { return join()->charge((i + 1) * kGiB) ? pause() : 1; }));
    ASSERT_TRUE(soon([&] { return std::filesystem::exists(path()) && members().size() == i + 1; }));
  }
  ASSERT_TRUE(soon([&] { return used() == 6 * kGiB; }));
  end(children[0]);
  EXPECT_EQ(used_after_repair(), 5 * kGiB);
  const auto left = members();
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].slot, 1U);
  EXPECT_EQ(left[0].reserved, 2 * kGiB);
  EXPECT_EQ(left[1].slot, 2U);
  EXPECT_EQ(left[1].reserved, 3 * kGiB);
  EXPECT_EQ(join()->slot(), 0U) << "the free place is used again";
  end(children[1]);
  end(children[2]);
}

/// HAMi-core: the limit of the first process that ever came holds for good.
TEST_F(KnownBugs, P5_TheLimitOfWhoComesToAnEmptyGroupHolds) {
  place_.limit = 4 * kGiB;
  join();
  EXPECT_EQ(standing().limit, 4 * kGiB);
  place_.limit = 6 * kGiB;
  const auto member = join();
  EXPECT_EQ(standing().limit, 6 * kGiB);
  place_.limit = 2 * kGiB;
  const pid_t late = start([&] { return join() != nullptr ? 0 : 1; });
  EXPECT_EQ(end_of(late), 0);
  EXPECT_EQ(standing().limit, 6 * kGiB) << "somebody else is there";
  View view;
  ASSERT_EQ(view.open(place_), kSuccess);
  EXPECT_EQ(view.set_limit(kGiB), kSuccess);
  EXPECT_FALSE(member->charge(2 * kGiB));
}

/// HAMi-core: what fails after the memory was created is counted nowhere, or for good.
TEST_F(KnownBugs, P7_WhatFailsOnTheWayIsCountedAsWhatItHolds) {
  const int result = end_of(start([&] {
    gpupool_t* const pool = make_pool({.wait_ns = kMillisecond});
    for (const char* call : {"create", "map", "set_access", "unmap", "release"}) {
      for (int n = 1; n <= 6; ++n) {
        const std::string script = std::string(call) + ":" + std::to_string(n);
        gpupool_sim_script(0, script.c_str());
        const gpupool_ptr_t block = take(pool, 40 * kMiB);
        if (block != 0) gpupool_free(pool, block, 0);
        gpupool_empty(pool, nullptr);
        gpupool_sim_script(0, nullptr);
        const uint64_t reserved = stats_of(pool).all.reserved_bytes.current;
        if (members().at(0).charged != reserved || used() != reserved || held_on_device() != reserved) {
          std::fprintf(stderr, "%s\n", script.c_str());
          return 1;
        }
      }
    }
    gpupool_empty(pool, nullptr);
    return used() == 0 && gpupool_validate(pool) == GPUPOOL_SUCCESS ? 0 : 2;
  }));
  EXPECT_EQ(result, 0);
}

/// HAMi-core keeps handles and addresses in one list, and answers the free of a pointer that it does not know
/// with a failure that changes its figures.
TEST_F(KnownBugs, P8_P10_P11_WhatIsNoBlockOfThisPoolIsNotFreed) {
  const int result = end_of(start([&] {
    gpupool_t* const pool = make_pool();
    gpupool_t* const other = make_pool();
    const gpupool_ptr_t block = take(pool, 40 * kMiB);
    const gpupool_ptr_t foreign = take(other, 40 * kMiB);
    if (block == 0 || foreign == 0) return 1;
    const uint64_t before = used();
    for (gpupool_ptr_t number = 1; number < 200; ++number) {  // as chunks' handles may be
      if (gpupool_free(pool, number, 0) != GPUPOOL_ERROR_UNKNOWN_POINTER) return 2;
    }
    if (gpupool_free(pool, foreign, 0) != GPUPOOL_ERROR_UNKNOWN_POINTER) return 3;
    if (gpupool_free(pool, block + 512, 0) != GPUPOOL_ERROR_UNKNOWN_POINTER) return 4;
    int host = 0;
    if (gpupool_free(pool, reinterpret_cast<gpupool_ptr_t>(&host), 0) != GPUPOOL_ERROR_UNKNOWN_POINTER)
      return 5;
    if (used() != before) return 6;
    // On another stream than the block's, as cudaFreeAsync of another pool's memory.
    if (gpupool_free(pool, block, 7) != GPUPOOL_SUCCESS || gpupool_free(other, foreign, 7) != GPUPOOL_SUCCESS)
      return 7;
    return gpupool_validate(pool) == GPUPOOL_SUCCESS && gpupool_validate(other) == GPUPOOL_SUCCESS ? 0 : 8;
  }));
  EXPECT_EQ(result, 0);
}

/// HAMi-core discharges at the release of a handle that is still mapped. At no instruction of a growth or of
/// what gives back does the device hold more than what is charged.
TEST_F(KnownBugs, P12_WhatTheDeviceHoldsIsCharged) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has too many instructions";
#endif
  std::unique_ptr<SimShared> device;
  ASSERT_EQ(SimShared::open(0, device), kSuccess);
  Layout* layout = nullptr;
  const auto map = [&] {
    File file;
    ASSERT_EQ(open_region(place_, false, file), kSuccess);
    ASSERT_EQ(map_region(file, layout), kSuccess);
  };
  const int count = step_through(
      [&](auto begin, auto through) {
        gpupool_t* const pool = make_pool();
        gpupool_free(pool, take(pool, 4 * kMiB), 0);
        begin();
        const gpupool_ptr_t block = take(pool, 34 * kMiB);
        gpupool_free(pool, block, 0);
        gpupool_empty(pool, nullptr);
        through();
        return block != 0 ? 0 : 1;
      },
      [&](int at) {
        if (layout == nullptr) map();
        if (at % 5 != 0) return;  // a look takes system calls, as does the time between two changes
        ASSERT_LE(device->used(), word::used_of(layout->header.used) * kUnitBytes) << at << " instructions";
      });
  unmap_region(layout);
  EXPECT_GT(count, 1000);
}

/// HAMi-core shows 18 EB once more is freed than was counted.
TEST_F(KnownBugs, P13_NothingGoesBelowZero) {
  const auto member = join();
  ASSERT_TRUE(member->charge(kGiB));
  member->refund(3 * kGiB);
  member->refund(~uint64_t{0});
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(members().at(0).charged, 0U);
  EXPECT_EQ(member->room(), kCapacity);
  EXPECT_EQ(member->change_guarantee(-static_cast<int64_t>(kGiB)), kSuccess);
  EXPECT_FALSE(member->charge(~uint64_t{0}));
  EXPECT_TRUE(member->charge(kCapacity));
  EXPECT_EQ(used(), kCapacity);
}

/// HAMi-core kills processes where memory is short.
TEST_F(KnownBugs, P14_NobodyIsKilledForAnother) {
  const pid_t live = start_hoarder(6 * kGiB, true);
  ASSERT_TRUE(board_->reaches(1));
  const pid_t needy = start([&] {
    gpupool_t* const pool = make_pool({.priority = 8, .wait_ns = 100 * kMillisecond});
    return take(pool, 4 * kGiB) == 0 && take(pool, kGiB) != 0 ? 0 : 1;
  });
  EXPECT_EQ(end_of(needy), 0);
  EXPECT_EQ(waitpid(live, nullptr, WNOHANG), 0);
  EXPECT_EQ(held_on_device(), 6 * kGiB);
  end(live);
}

/// HAMi-core takes SIGUSR1 and SIGUSR2 from the application.
TEST_F(KnownBugs, P15_NoSignalIsHandled) {
  const int result = end_of(start([&] {
    const auto handlers = [] {
      std::vector<void (*)(int)> all;
      for (int number = 1; number < NSIG; ++number) {
        struct sigaction found {};
        all.push_back(sigaction(number, nullptr, &found) == 0 ? found.sa_handler : nullptr);
      }
      return all;
    };
    const auto before = handlers();
    gpupool_t* const pool = make_pool();
    gpupool_free(pool, take(pool, kGiB), 0);
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, nullptr, &blocked);
    return handlers() == before && sigisemptyset(&blocked) == 1 ? 0 : 1;
  }));
  EXPECT_EQ(result, 0);
}

/// HAMi-core fails calls that ask, once more is used than the limit, or with null arguments.
TEST_F(KnownBugs, P16_AGroupOverItsLimitStillAnswers) {
  const int result = end_of(start([&] {
    gpupool_t* const pool = make_pool({.wait_ns = kMillisecond});
    const gpupool_ptr_t block = take(pool, 4 * kGiB);
    if (gpupool_share_set("team", GPUPOOL_BACKEND_SIM, 0, GPUPOOL_SHARE_FIGURE_LIMIT, 0, kGiB) !=
        GPUPOOL_SUCCESS) {
      return 1;
    }
    gpupool_share_t info{};
    info.struct_size = sizeof info;
    size_t count = 0;
    const auto look = [&](gpupool_share_t* to, size_t* members) {
      return gpupool_share_info("team", GPUPOOL_BACKEND_SIM, 0, to, nullptr, sizeof(gpupool_share_member_t),
                                0, members);
    };
    if (look(&info, &count) != GPUPOOL_SUCCESS || info.used_bytes != 4 * kGiB || info.limit_bytes != kGiB)
      return 2;
    if (look(nullptr, &count) != GPUPOOL_ERROR_INVALID_ARGUMENT) return 3;
    if (stats_of(pool).all.reserved_bytes.current != 4 * kGiB || take(pool, kGiB) != 0) return 4;
    if (gpupool_free(pool, block, 0) != GPUPOOL_SUCCESS || take(pool, kGiB) == 0) return 5;
    return gpupool_validate(pool) == GPUPOOL_SUCCESS ? 0 : 6;
  }));
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace gpupool::internal::share
