// SPDX-License-Identifier: Apache-2.0
// Pools of several processes on one simulated device, through the C functions. This process is not one of
// them: it starts, stops and kills them, and inspects the region and the device from outside.
#include <string.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>

#include "device/sim/shared.hpp"
#include "gpupool/gpupool.h"
#include "share_fixture.hpp"

namespace gpupool::internal::share {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kCapacity = 8 * kGiB;

/// What processes tell each other.
struct Board {
  std::array<std::atomic<uint64_t>, 16> figures;
  std::atomic<int> step;

  bool reaches(int wanted, int ms = 20'000) const {
    for (int i = 0; i < ms && step.load() < wanted; ++i) usleep(1000);
    return step.load() >= wanted;
  }
};

struct Terms {
  uint64_t guaranteed = 0;
  int32_t priority = 0;
  uint64_t wait_ns = 0;
  uint64_t limit = 0;
};

class PoolsTest : public ShareTest {
 protected:
  PoolsTest() {
    name_ = "test-" + std::to_string(getpid()) + "-" + std::to_string(now_ns() % 1'000'000'000);
    setenv("GPUPOOL_SIM_SHARED", name_.c_str(), 1);
    setenv("GPUPOOL_SIM", "capacity=8GiB,data=0", 1);
    setenv("GPUPOOL_SHARE_DIR", folder_.c_str(), 1);
    place_.device = sim_shared_name(0);
    place_.device_bytes = kCapacity;
  }
  ~PoolsTest() override {
    std::filesystem::remove("/dev/shm/gpupool-" + std::to_string(geteuid()) + "." + sim_shared_name(0));
    for (const char* each : {"GPUPOOL_SIM_SHARED", "GPUPOOL_SIM", "GPUPOOL_SHARE_DIR"}) unsetenv(each);
  }

  static gpupool_t* make_pool(const Terms& terms = {}) {
    gpupool_config_t config;
    gpupool_config_init(&config, sizeof config);
    config.backend = GPUPOOL_BACKEND_SIM;
    config.share = "team";
    config.guaranteed_bytes = terms.guaranteed;
    config.priority = terms.priority;
    // The default is meant for programs, not for processes that wait for a busy machine's processors.
    config.share_wait_ns = terms.wait_ns != 0 ? terms.wait_ns : 5000 * kMillisecond;
    config.limit_bytes = terms.limit;
    gpupool_t* pool = nullptr;
    if (gpupool_create(&config, &pool) != GPUPOOL_SUCCESS) return nullptr;
    return pool;
  }
  static gpupool_stats_t stats_of(gpupool_t* pool) {
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    gpupool_stats(pool, &stats);
    return stats;
  }
  static gpupool_ptr_t take(gpupool_t* pool, uint64_t bytes) {
    gpupool_ptr_t block = 0;
    return gpupool_malloc(pool, bytes, 0, &block) == GPUPOOL_SUCCESS ? block : 0;
  }
  /// What all living processes hold of the device, as the device counts it.
  static uint64_t held_on_device() {
    std::unique_ptr<SimShared> device;
    EXPECT_EQ(SimShared::open(0, device), kSuccess);
    return device->used();
  }
  /// The sum over processes is not of one moment, and has what is about to be refused: one that is too high
  /// says nothing, ten in a row do.
  static bool is_within_capacity() {
    for (int i = 0; i < 10; ++i) {
      if (held_on_device() <= kCapacity) return true;
    }
    return false;
  }
  /// A process that fills the device with cached memory, or with live, and waits.
  pid_t start_hoarder(uint64_t bytes, bool is_live, const Terms& terms = {}) {
    return start([=, this] {
      gpupool_t* const pool = make_pool(terms);
      const gpupool_ptr_t block = take(pool, bytes);
      if (block == 0) return 1;
      if (!is_live) gpupool_free(pool, block, 0);
      ++board_->step;
      for (;;) {
        board_->figures[15] = stats_of(pool).share_given_bytes;
        usleep(1000);
      }
      return 0;
    });
  }
  void end(pid_t child) const {
    kill(child, SIGKILL);
    end_of(child);
  }

  std::string name_;
  Common<Board> board_;
};

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

TEST_F(PoolsTest, TheMemoryOfAKilledProcessComesBack) {
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

TEST_F(PoolsTest, AStoppedProcessHoldsNobodyUpForLongerThanTheWait) {
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

TEST_F(PoolsTest, ARegionThatCannotBeUsedMeansAloneWithOneWarning) {
  for (const char* damage : {"truncated", "foreign", "newer"}) {
    SCOPED_TRACE(damage);
    end_of(start([&] { return make_pool() == nullptr ? 1 : 0; }));
    {
      std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
      if (*damage == 'f') file.write("nonsense", 8);
      if (*damage == 'n') {
        const uint32_t major = kMajor + 1;
        file.seekp(offsetof(Header, major));
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

TEST_F(PoolsTest, APoolWakesWithWhatANeighbourHasCached) {
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

/// Each takes as much as it gets, frees something only when it is refused, and so on.
int be_greedy(gpupool_t* pool, uint64_t seed, uint64_t until, std::atomic<uint64_t>& held_now) {
  std::mt19937_64 random(seed);
  std::vector<std::pair<gpupool_ptr_t, uint64_t>> blocks;
  uint64_t held = 0;
  while (now_ns() < until) {
    const uint64_t bytes = (1 + random() % 32) * kMiB;
    gpupool_ptr_t block = 0;
    const gpupool_status_t status = gpupool_malloc(pool, bytes, 0, &block);
    if (status == GPUPOOL_SUCCESS) {
      blocks.emplace_back(block, bytes);
      held += bytes;
    } else if (status != GPUPOOL_ERROR_OVER_LIMIT && status != GPUPOOL_ERROR_OUT_OF_MEMORY) {
      return 1;
    }
    // A working set that turns over: a refusal costs more than one block.
    for (int i = status == GPUPOOL_SUCCESS ? (random() % 4 == 0 ? 1 : 0) : 8; i > 0 && !blocks.empty(); --i) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      gpupool_free(pool, blocks.back().first, 0);
      held -= blocks.back().second;
      blocks.pop_back();
    }
    held_now = held;
  }
  return gpupool_validate(pool) == GPUPOOL_SUCCESS ? 0 : 2;
}

/// Each is in need all the time, and frees something only when it is refused. The one that comes first, and
/// has everything, does not stay ahead. GPUPOOL_GREEDY_SECONDS=60 for the figures of docs/sharing.md.
TEST_F(PoolsTest, GreedyProcessesComeToLikeParts) {
  constexpr size_t kProcesses = 3;
  std::vector<pid_t> children;
  for (size_t i = 0; i < kProcesses; ++i) {
    children.push_back(start([&, i] {
      gpupool_t* const pool = make_pool({.wait_ns = 50 * kMillisecond});
      return pool == nullptr ? 3 : be_greedy(pool, i, ~uint64_t{0}, board_->figures[i]);
    }));
    if (i == 0) usleep(1'000'000);
  }
  // The least part of an equal one that any has on average.
  const auto least_part = [&](uint64_t seconds) {
    std::array<double, kProcesses> held{};
    double looks = 0;
    for (const uint64_t end_at = now_ns() + seconds * 1000 * kMillisecond; now_ns() < end_at; ++looks) {
      for (size_t i = 0; i < kProcesses; ++i) held[i] += static_cast<double>(board_->figures[i].load());
      usleep(5000);
    }
    return *std::min_element(held.begin(), held.end()) / looks / (double{kCapacity} / kProcesses);
  };
  double least = 0;
  for (int i = 0; i < 120 && least < 0.6; ++i) least = least_part(1);
  EXPECT_GE(least, 0.6);
  if (const char* const seconds = getenv("GPUPOOL_GREEDY_SECONDS"); seconds != nullptr)
    printf("the least part: %.3f of a third\n", least_part(std::strtoull(seconds, nullptr, 10)));
  for (const pid_t child : children) end(child);
}

/// Pools that are killed at any moment: the device never gives out more than it has, nor the group, and all
/// of it is there at the end.
TEST_F(PoolsTest, PoolsThatAreKilledAtRandomLoseNothing) {
  constexpr int kProcesses = 4;
  std::vector<pid_t> children;
  uint64_t seed = 0;
  const auto start_one = [&] {
    ++seed;
    return start([&, seed] {
      gpupool_t* const pool = make_pool({.guaranteed = seed % 3 * 256 * kMiB, .wait_ns = 10 * kMillisecond});
      return pool == nullptr ? 0 : be_greedy(pool, seed, ~uint64_t{0}, board_->figures[0]);
    });
  };
  for (int i = 0; i < kProcesses; ++i) children.push_back(start_one());
  std::mt19937_64 random(5);
  const uint64_t end_at = now_ns() + 6000 * kMillisecond;
  int kills = 0;
  while (now_ns() < end_at) {
    usleep(static_cast<useconds_t>(random() % 30'000));
    pid_t& child = children[random() % children.size()];
    end(child);
    ++kills;
    child = start_one();
    if (std::filesystem::exists(path())) {
      EXPECT_LE(used(), kCapacity);
      View view;
      int64_t off = 0;
      ASSERT_EQ(view.open(place_), kSuccess);
      ASSERT_EQ(view.repair(kCapacity - std::min(kCapacity, held_on_device()), off), kSuccess);
      ASSERT_EQ(off, 0);
    }
    EXPECT_TRUE(is_within_capacity());
  }
  for (const pid_t child : children) end(child);
  EXPECT_EQ(used_after_repair(), 0U);
  EXPECT_EQ(held_on_device(), 0U);
  RecordProperty("kills", kills);
}

}  // namespace
}  // namespace gpupool::internal::share
