// SPDX-License-Identifier: Apache-2.0
// What pools of several processes give, keep and take.
#include <string.h>

#include <algorithm>
#include <fstream>

#include "pools_fixture.hpp"

namespace gpupool::internal::share {
namespace {

TEST_F(PoolsTest, CachedMemoryGoesToWhoNeedsIt) {
  const pid_t hoarder = start_hoarder(7 * kGiB, false);
  ASSERT_TRUE(board_->reaches(1));
  EXPECT_EQ(held_on_device(), 7 * kGiB);
  const pid_t needy = start([&] {
    gpupool_t* const pool = make_pool();
    const uint64_t begin = now_ns();
    const gpupool_ptr_t block = take(pool, 6 * kGiB);
    board_->figures[0] = now_ns() - begin;
    board_->figures[1] = stats_of(pool).share_taken_bytes;
    board_->figures[2] = static_cast<uint64_t>(stats_of(pool).share_state);
    return block != 0 && gpupool_validate(pool) == GPUPOOL_SUCCESS ? 0 : 1;
  });
  EXPECT_EQ(end_of(needy), 0);
  EXPECT_GE(board_->figures[1], 5 * kGiB);
  EXPECT_EQ(board_->figures[2], static_cast<uint64_t>(GPUPOOL_SHARE_STATE_SHARED));
  for (int i = 0; i < 5000 && board_->figures[15] < 5 * kGiB; ++i) usleep(1000);
  EXPECT_GE(board_->figures[15], 5 * kGiB);
  RecordProperty("ns", std::to_string(board_->figures[0]));
  end(hoarder);
  EXPECT_EQ(used_after_repair(), 0U);
}

/// What neighbours have cached is room: who gets it makes chunks as large as where nobody has anything, since
/// each costs driver calls in two processes.
TEST_F(PoolsTest, WhatANeighbourHasCachedComesInLargeChunks) {
  const auto creates_for = [&](uint64_t bytes) {
    const pid_t child = start([&] {
      gpupool_t* const pool = make_pool();
      if (take(pool, bytes) == 0) return 255;
      return static_cast<int>(stats_of(pool).driver.create.count);
    });
    return end_of(child);
  };
  const int alone = creates_for(256 * kMiB);
  EXPECT_EQ(alone, 16);
  const pid_t hoarder = start_hoarder(kCapacity, false);
  ASSERT_TRUE(board_->reaches(1));
  EXPECT_EQ(creates_for(256 * kMiB), alone);
  end(hoarder);
}

TEST_F(PoolsTest, LiveMemoryAndGuaranteesAreNotTaken) {
  const pid_t live = start_hoarder(4 * kGiB, true);
  ASSERT_TRUE(board_->reaches(1));
  const pid_t sure = start_hoarder(3 * kGiB, false, {.guaranteed = 2 * kGiB});
  ASSERT_TRUE(board_->reaches(2));
  const pid_t needy = start([&] {
    // 8 GiB but for 4 live and 2 guaranteed.
    const gpupool_ptr_t block = take(make_pool(), 2 * kGiB);
    gpupool_t* const impatient = make_pool({.wait_ns = 50 * kMillisecond});
    const uint64_t begin = now_ns();
    const gpupool_ptr_t more = take(impatient, 4 * kMiB);
    board_->figures[0] = now_ns() - begin;
    gpupool_error_t error{};
    error.struct_size = sizeof error;
    gpupool_last_error(&error);
    const bool is_explained = strstr(error.message, "with the group team, which has 0 B left") != nullptr;
    if (!is_explained) std::fprintf(stderr, "%s\n", error.message);
    return block != 0 && more == 0 && error.status == GPUPOOL_ERROR_OVER_LIMIT && is_explained ? 0 : 1;
  });
  EXPECT_EQ(end_of(needy), 0);
  EXPECT_LT(board_->figures[0], 2000 * kMillisecond);
  for (const pid_t each : {live, sure}) end(each);
}

TEST_F(PoolsTest, AGuaranteeThatTheGroupDoesNotHaveIsRefused) {
  const pid_t live = start_hoarder(7 * kGiB, true);
  ASSERT_TRUE(board_->reaches(1));
  const pid_t late = start([&] {
    if (make_pool({.guaranteed = 2 * kGiB}) != nullptr) return 1;
    gpupool_error_t error{};
    error.struct_size = sizeof error;
    gpupool_last_error(&error);
    return error.status == GPUPOOL_ERROR_OVER_LIMIT ? 0 : 2;
  });
  EXPECT_EQ(end_of(late), 0);
  end(live);
}

TEST_F(PoolsTest, F10_TheMemoryOfAKilledProcessComesBack) {
  for (int round = 0; round < 5; ++round) {
    board_->step = 0;
    const pid_t hoarder = start_hoarder(7 * kGiB, true);
    ASSERT_TRUE(board_->reaches(1));
    const pid_t needy = start([&] {
      gpupool_t* const pool = make_pool({.wait_ns = 5000 * kMillisecond});
      ++board_->step;
      while (board_->step.load() < 3) usleep(100);
      const uint64_t begin = now_ns();
      const gpupool_ptr_t block = take(pool, 6 * kGiB);
      board_->figures[0] = now_ns() - begin;
      return block != 0 ? 0 : 1;
    });
    ASSERT_TRUE(board_->reaches(2));
    end(hoarder);
    ++board_->step;
    EXPECT_EQ(end_of(needy), 0);
  }
  EXPECT_EQ(used_after_repair(), 0U);
}

TEST_F(PoolsTest, F4_AStoppedProcessHoldsNobodyUpForLongerThanTheWait) {
  const pid_t hoarder = start_hoarder(7 * kGiB, false);
  ASSERT_TRUE(board_->reaches(1));
  stop(hoarder);
  const pid_t needy = start([&] {
    gpupool_t* const pool = make_pool({.wait_ns = 30 * kMillisecond});
    for (size_t i = 0; i < 10; ++i) {
      const uint64_t begin = now_ns();
      if (take(pool, 6 * kGiB) != 0) return 1;
      board_->figures[i] = now_ns() - begin;
    }
    return take(pool, kGiB) != 0 ? 0 : 2;
  });
  EXPECT_EQ(end_of(needy), 0);
  std::array<uint64_t, 10> times{};
  for (size_t i = 0; i < times.size(); ++i) times[i] = board_->figures[i];
  std::sort(times.begin(), times.end());
  EXPECT_LT(times[5], 500 * kMillisecond);
  EXPECT_LT(times[9], 2000 * kMillisecond) << "on a busy machine, and yet";
  end(hoarder);
}

TEST_F(PoolsTest, AChildOfForkLeavesTheGroupAndMayJoinAnew) {
  const pid_t parent = start([&] {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t block = take(pool, kGiB);
    if (block == 0) return 1;
    const pid_t child = fork();
    if (child == 0) {
      gpupool_ptr_t unused = 0;
      if (gpupool_malloc(pool, kMiB, 0, &unused) != GPUPOOL_ERROR_FORKED) _exit(1);
      if (stats_of(pool).all.reserved_bytes.current < kGiB) _exit(2);
      gpupool_t* const own = make_pool();
      if (take(own, 2 * kGiB) == 0) _exit(3);
      if (stats_of(own).share_slot == stats_of(pool).share_slot) _exit(4);
      _exit(0);
    }
    const int result = end_of(child);
    // The child's end has taken nothing of the parent's.
    return result == 0 && used() >= kGiB && take(pool, kGiB) != 0 ? 0 : 10 + result;
  });
  EXPECT_EQ(end_of(parent), 0);
  EXPECT_EQ(used_after_repair(), 0U);
}

TEST_F(PoolsTest, DestroyingThePoolsLeavesTheGroup) {
  const pid_t process = start([&] {
    gpupool_t* const pool = make_pool({.guaranteed = kGiB});
    gpupool_t* const second = make_pool({.guaranteed = kGiB});
    gpupool_t* child = nullptr;
    if (gpupool_create_child(pool, &child) != GPUPOOL_SUCCESS) return 1;
    if (take(child, 3 * kGiB) == 0 || used() < 3 * kGiB) return 2;
    if (members().size() != 1 || members()[0].guaranteed != 2 * kGiB) return 3;
    gpupool_destroy(second);
    if (members()[0].guaranteed != kGiB) return 4;
    ++board_->step;
    return 0;
  });
  EXPECT_EQ(end_of(process), 0);
  const pid_t other = start([&] {
    gpupool_t* const pool = make_pool({.guaranteed = kGiB});
    const gpupool_ptr_t block = take(pool, 2 * kGiB);
    gpupool_free(pool, block, 0);
    gpupool_destroy(pool);
    return members().empty() && used() == 0 ? 0 : 1;
  });
  EXPECT_EQ(end_of(other), 0);
}

TEST_F(PoolsTest, F12_ARegionThatCannotBeUsedMeansAloneWithOneWarning) {
  for (const char* damage : {"truncated", "foreign", "newer"}) {
    SCOPED_TRACE(damage);
    end_of(start([&] { return make_pool() == nullptr ? 1 : 0; }));
    {
      std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
      if (*damage == 'f') file.write("nonsense", 8);
      if (*damage == 'n') {
        const uint32_t major = wire::region::kMajor + 1;
        file.seekp(offsetof(wire::region::Begin, major));
        file.write(reinterpret_cast<const char*>(&major), sizeof major);
      }
    }
    if (*damage == 't') {
      ASSERT_EQ(truncate(path().c_str(), 4096), 0);
    }
    const std::string said = folder_ + "/said";
    const pid_t process = start([&] {
      if (freopen(said.c_str(), "w", stderr) == nullptr) return 1;
      gpupool_t* const pool = make_pool();
      gpupool_t* const second = make_pool();
      const bool good = take(pool, kGiB) != 0 && take(second, kGiB) != 0;
      fflush(stderr);
      return good && stats_of(pool).share_state == GPUPOOL_SHARE_STATE_ALONE ? 0 : 2;
    });
    EXPECT_EQ(end_of(process), 0);
    std::ifstream file(said);
    std::string line;
    ASSERT_TRUE(std::getline(file, line));
    EXPECT_EQ(line.find("gpupool: runs alone, and shares with nobody: "), 0U) << line;
    EXPECT_FALSE(std::getline(file, line)) << "said twice: " << line;
    std::filesystem::remove(path());
  }
}

TEST_F(PoolsTest, S22_APoolWakesWithWhatANeighbourHasCached) {
  const pid_t sleeper = start([&] {
    gpupool_t* const pool = make_pool();
    const gpupool_ptr_t block = take(pool, 6 * kGiB);
    gpupool_sleep_options_t options{};
    options.struct_size = sizeof options;
    options.mode = GPUPOOL_SLEEP_MODE_DROP;
    if (block == 0 || gpupool_sleep(pool, &options, nullptr) != GPUPOOL_SUCCESS) return 1;
    ++board_->step;
    if (!board_->reaches(2)) return 2;
    if (gpupool_wake(pool, nullptr, nullptr) != GPUPOOL_SUCCESS) return 3;
    return gpupool_validate(pool) == GPUPOOL_SUCCESS ? 0 : 4;
  });
  ASSERT_TRUE(board_->reaches(1));
  const pid_t hoarder = start_hoarder(7 * kGiB, false);
  EXPECT_EQ(end_of(sleeper), 0);
  end(hoarder);
}

TEST_F(PoolsTest, RequestAsksAheadOfNeed) {
  const pid_t hoarder = start_hoarder(7 * kGiB, false);
  ASSERT_TRUE(board_->reaches(1));
  const pid_t needy = start([&] {
    gpupool_t* const pool = make_pool({.limit = 6 * kGiB});
    if (gpupool_share_request(pool, 7 * kGiB, 0) != GPUPOOL_ERROR_OVER_LIMIT) return 1;
    if (gpupool_share_request(pool, 4 * kGiB, 2000 * kMillisecond) != GPUPOOL_SUCCESS) return 2;
    return gpupool_reserve(pool, 4 * kGiB, 0) == GPUPOOL_SUCCESS ? 0 : 3;
  });
  EXPECT_EQ(end_of(needy), 0);
  end(hoarder);
}

TEST_F(PoolsTest, TheViewFromOutside) {
  const pid_t hoarder = start_hoarder(3 * kGiB, true, {.guaranteed = kGiB, .priority = 2});
  ASSERT_TRUE(board_->reaches(1));
  const pid_t outside = start([&] {
    gpupool_share_t info{};
    info.struct_size = sizeof info;
    std::array<gpupool_share_member_t, 4> all{};
    size_t count = 0;
    const auto look = [&] {
      return gpupool_share_info("team", GPUPOOL_BACKEND_SIM, 0, &info, all.data(), sizeof all[0], all.size(),
                                &count);
    };
    if (look() != GPUPOOL_SUCCESS || count != 1 || info.members != 1) return 1;
    if (info.limit_bytes != kCapacity || info.used_bytes < 3 * kGiB || all[0].guaranteed_bytes != kGiB)
      return 2;
    if (all[0].priority != 2 || all[0].state != GPUPOOL_SHARE_MEMBER_STATE_LIVE) return 3;
    const auto set = [&](int32_t what, int64_t value) {
      return gpupool_share_set("team", GPUPOOL_BACKEND_SIM, 0, what, all[0].slot, value);
    };
    if (set(GPUPOOL_SHARE_FIGURE_LIMIT, 5 * static_cast<int64_t>(kGiB)) != GPUPOOL_SUCCESS) return 4;
    if (set(GPUPOOL_SHARE_FIGURE_MEMBER_PRIORITY, 99) != GPUPOOL_ERROR_INVALID_ARGUMENT) return 5;
    if (set(GPUPOOL_SHARE_FIGURE_MEMBER_GUARANTEE, 4 * static_cast<int64_t>(kGiB)) != GPUPOOL_SUCCESS)
      return 6;
    if (set(9, 0) != GPUPOOL_ERROR_INVALID_ARGUMENT || set(1, -1) != GPUPOOL_ERROR_INVALID_ARGUMENT) return 7;
    if (look() != GPUPOOL_SUCCESS || info.limit_bytes != 5 * kGiB || info.used_bytes != 4 * kGiB) return 8;
    int64_t off = 1;
    if (gpupool_share_repair("team", GPUPOOL_BACKEND_SIM, 0, &off) != GPUPOOL_SUCCESS || off != 0) return 9;
    if (gpupool_share_info("none", GPUPOOL_BACKEND_SIM, 0, &info, nullptr, sizeof all[0], 0, &count) !=
        GPUPOOL_ERROR_UNAVAILABLE) {
      return 10;
    }
    if (gpupool_share_info("a/b", GPUPOOL_BACKEND_SIM, 0, &info, nullptr, sizeof all[0], 0, &count) !=
        GPUPOOL_ERROR_INVALID_ARGUMENT) {
      return 11;
    }
    return 0;
  });
  EXPECT_EQ(end_of(outside), 0);
  end(hoarder);
}

}  // namespace
}  // namespace gpupool::internal::share
