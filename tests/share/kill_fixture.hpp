// SPDX-License-Identifier: Apache-2.0
// A process that dies in the middle of what it does with its pool, and a neighbour that then needs all of the
// device.
#pragma once

#include <array>
#include <ostream>
#include <regex>
#include <set>
#include <string>

#include "pools_fixture.hpp"

namespace gpupool::internal::share {

constexpr uint64_t kDeviceBytes = 64 * kMiB;

constexpr std::array kCallNames{"create",      "release",   "map",  "set_access", "unmap",
                                "address",     "malloc",    "free", "query",      "event_record",
                                "stream_wait", "host_wait", "copy", "stream",     "share"};

/// The process that dies: a pool of the group, with blocks that lie in several places.
struct Victim {
  gpupool_t* pool = nullptr;
  std::array<gpupool_ptr_t, 4> blocks{};

  bool sleep(gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE, uint64_t target = 0) const {
    const gpupool_sleep_options_t how = options(mode, target);
    return gpupool_sleep(pool, &how, nullptr) == GPUPOOL_SUCCESS;
  }
  bool wake() const { return gpupool_wake(pool, nullptr, nullptr) == GPUPOOL_SUCCESS; }
  bool sleep_block() const {
    return gpupool_sleep_block(pool, blocks[1], nullptr, nullptr) == GPUPOOL_SUCCESS;
  }
  bool wake_block() const { return gpupool_wake_block(pool, blocks[1], nullptr, nullptr) == GPUPOOL_SUCCESS; }

  static gpupool_sleep_options_t options(gpupool_sleep_mode_t mode, uint64_t target) {
    gpupool_sleep_options_t how{};
    how.struct_size = sizeof how;
    how.mode = mode;
    how.target_bytes = target;
    return how;
  }
};

/// What it does before the step that is counted, and what it dies in.
struct Act {
  const char* name;
  bool (*before)(const Victim&);
  bool (*act)(const Victim&);

  friend std::ostream& operator<<(std::ostream& out, const Act& act) { return out << act.name; }
};

inline bool nothing(const Victim& /*victim*/) {
  return true;
}

class KillTest : public PoolsTest {
 protected:
  KillTest() {
    setenv("GPUPOOL_SIM", "capacity=64MiB,data=1", 1);
    setenv("TMPDIR", temporary_.path().c_str(), 1);
    place_.device_bytes = kDeviceBytes;
    neighbour_ = start([this] { return live_as_neighbour(); });
  }
  ~KillTest() override {
    end(neighbour_);
    unsetenv("TMPDIR");
  }

  /// Takes the whole device each time that it is asked, and gives it back.
  int live_as_neighbour() const {
    gpupool_t* const pool = make_pool();
    for (;;) {
      while (board_->step.load() % 2 == 0) usleep(100);
      const uint64_t begin = now_ns();
      const gpupool_ptr_t block = take(pool, kDeviceBytes - 2 * kMiB);
      board_->figures[1] = now_ns() - begin;
      board_->figures[0] = block != 0 ? 1 : 0;
      if (block != 0) gpupool_free(pool, block, 0);
      gpupool_empty(pool, nullptr);
      ++board_->step;
    }
  }

  static bool make_victim(Victim& victim) {
    gpupool_config_t config;
    gpupool_config_init(&config, sizeof config);
    config.backend = GPUPOOL_BACKEND_SIM;
    config.share = "team";
    config.max_chunk_bytes = 2 * kMiB;
    if (gpupool_create(&config, &victim.pool) != GPUPOOL_SUCCESS) return false;
    gpupool_set_name(victim.pool, "victim");
    for (size_t i = 0; i < victim.blocks.size(); ++i) {
      victim.blocks[i] = take(victim.pool, i == 3 ? 3000 : 6 * kMiB);
      if (victim.blocks[i] == 0) return false;
    }
    return gpupool_free(victim.pool, victim.blocks[0], 0) == GPUPOOL_SUCCESS;
  }
  /// In a process of its own. 0: it got through.
  template <typename Begin>
  static int live_as_victim(const Act& what, Begin begin) {
    Victim victim;
    if (!make_victim(victim)) return 1;
    if (!what.before(victim)) return 2;
    begin();
    return what.act(victim) ? 0 : 3;
  }

  /// Kills a victim at each driver call of what it does. Returns how many have died.
  int die_at_each_driver_call(const Act& what) {
    int deaths = 0;
    for (const char* call : kCallNames) {
      for (int n = 1; !HasFailure(); ++n) {
        const std::string script = std::string(call) + ":" + std::to_string(n) + "=kill";
        SCOPED_TRACE(script);
        const pid_t victim =
            start([&] { return live_as_victim(what, [&] { gpupool_sim_script(0, script.c_str()); }); });
        const int result = end_of(victim);
        expect_nothing_left(victim);
        if (result == 0) break;
        EXPECT_EQ(result, -SIGKILL);
        ++deaths;
        EXPECT_LT(n, 200);
      }
    }
    return deaths;
  }

  void expect_nothing_left(pid_t victim) {
    EXPECT_EQ(held_on_device(), 0U);
    const int step = board_->step.load();
    ++board_->step;
    ASSERT_TRUE(board_->reaches(step + 2));
    EXPECT_EQ(board_->figures[0], 1U) << "the neighbour cannot have the device's memory";
    EXPECT_EQ(used_after_repair(), 0U);
    EXPECT_EQ(members().size(), 1U);
    EXPECT_TRUE(std::filesystem::is_empty(temporary_.path()));
    for (const std::string& name : shared_files()) {
      EXPECT_TRUE(files_before_.contains(name) || !std::regex_match(name, names_of(victim))) << name;
    }
  }

  /// Other tests have files there, too, also old ones with the same number.
  static std::regex names_of(pid_t process) {
    return std::regex("gpupool.*[^0-9]" + std::to_string(process) + "([^0-9].*)?");
  }
  static std::set<std::string> shared_files() {
    std::set<std::string> names;
    for (const char* folder : {"/dev/shm", "/tmp"}) {
      for (const auto& entry : std::filesystem::directory_iterator(folder))
        names.insert(entry.path().filename().string());
    }
    return names;
  }

  const std::set<std::string> files_before_ = shared_files();
  const OwnFolder temporary_;
  pid_t neighbour_ = 0;
};

}  // namespace gpupool::internal::share
