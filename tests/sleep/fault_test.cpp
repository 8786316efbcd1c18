// SPDX-License-Identifier: Apache-2.0
// Every driver call of a sleep and of a wake fails: once, at each of its occurrences, and permanently.
// Whatever happens, the pool is awake or asleep, no byte is lost, and the next try succeeds (S1, S2, S5,
// S39).
#include <array>
#include <initializer_list>

#include "sleep_fixture.hpp"

namespace sleep_test {
namespace {

constexpr std::array kCallNames{"create",      "release",   "map",  "set_access", "unmap",
                                "address",     "malloc",    "free", "query",      "event_record",
                                "stream_wait", "host_wait", "copy", "stream"};

struct Way {
  const char* name;
  gpupool_sleep_mode_t mode;
  uint32_t pool_flags;
  bool has_graph;
};

std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.name;
}

/// Blocks that share chunks, and larger ones, on two streams, each with its own pattern; cached and pending
/// memory; where wanted, a graph whose memory was freed and moved.
class Scene {
 public:
  explicit Scene(const Way& way) : way_(way) {
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_SIM;
    config.device = kDevice;
    config.mode = GPUPOOL_MODE_VMM;
    config.flags = way.pool_flags;
    EXPECT_TRUE(ok(gpupool_create(&config, &pool_)));
    for (const uint64_t size : {uint64_t{700}, 3 * kMiB / 2, 40 * kKiB, uint64_t{512}, 5 * kMiB / 2}) {
      const gpupool_stream_t stream = blocks_.size() % 2 == 0 ? 0 : 7;
      gpupool_ptr_t address = 0;
      EXPECT_TRUE(ok(gpupool_malloc(pool_, size, stream, &address)));
      blocks_.push_back({address, size, stream});
      write_pattern(address, size, blocks_.size());
    }
    if (way.has_graph) capture();
    gpupool_ptr_t passing = 0;
    EXPECT_TRUE(ok(gpupool_malloc(pool_, 9 * kMiB, 0, &passing)));
    EXPECT_TRUE(ok(gpupool_sim_work(kDevice, 7, passing, 512, 1'000'000)));
    EXPECT_TRUE(ok(gpupool_free(pool_, passing, 7)));
    if (way.mode == GPUPOOL_SLEEP_MODE_DROP) {
      for (const Block& block : blocks_) EXPECT_TRUE(ok(gpupool_set_keep(pool_, block.address, 1)));
    }
  }

  gpupool_t* pool() const { return pool_; }
  gpupool_status_t sleep() { return try_sleep(pool_, way_.mode); }
  gpupool_stats_t stats() {
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    EXPECT_TRUE(ok(gpupool_stats(pool_, &stats)));
    return stats;
  }

  /// Awake, with every byte in its place, and the graph still runs.
  void expect_whole() {
    EXPECT_TRUE(ok(gpupool_validate(pool_)));
    EXPECT_EQ(state_of(pool_), GPUPOOL_SLEEP_STATE_AWAKE);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      EXPECT_TRUE(has_pattern(blocks_[i].address, blocks_[i].size, i + 1)) << "block " << i;
    }
    if (capture_ != 0) {
      EXPECT_TRUE(ok(gpupool_sim_launch(kDevice, capture_, kGraphStream)));
    }
  }

  void end() {
    if (capture_ != 0) {
      EXPECT_TRUE(ok(gpupool_synchronize(pool_)));
      EXPECT_TRUE(ok(gpupool_release_capture(pool_, capture_)));
    }
    for (const Block& block : blocks_) EXPECT_TRUE(ok(gpupool_free(pool_, block.address, block.stream)));
    EXPECT_TRUE(ok(gpupool_destroy(pool_)));
    EXPECT_EQ(device_free(), kCapacity);
    std::string last;
    EXPECT_EQ(fault_count(&last), 0u) << last;
  }

 private:
  struct Block {
    gpupool_ptr_t address;
    uint64_t size;
    gpupool_stream_t stream;
  };
  static constexpr gpupool_stream_t kGraphStream = 11;

  /// A graph that uses memory which it frees and gets again elsewhere.
  void capture() {
    ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, kGraphStream, 1)));
    gpupool_ptr_t first = 0;
    gpupool_ptr_t fence = 0;
    gpupool_ptr_t larger = 0;
    ASSERT_TRUE(ok(gpupool_capture_id(pool_, kGraphStream, &capture_)));
    ASSERT_TRUE(ok(gpupool_malloc(pool_, 6 * kMiB, kGraphStream, &first)));
    ASSERT_TRUE(ok(gpupool_malloc(pool_, 2 * kMiB, kGraphStream, &fence)));
    ASSERT_TRUE(ok(gpupool_sim_work(kDevice, kGraphStream, first, 6 * kMiB, 1000)));
    ASSERT_TRUE(ok(gpupool_free(pool_, first, kGraphStream)));
    ASSERT_TRUE(ok(gpupool_malloc(pool_, 12 * kMiB, kGraphStream, &larger)));
    ASSERT_TRUE(ok(gpupool_sim_work(kDevice, kGraphStream, larger, 12 * kMiB, 1000)));
    ASSERT_TRUE(ok(gpupool_free(pool_, larger, kGraphStream)));
    ASSERT_TRUE(ok(gpupool_free(pool_, fence, kGraphStream)));
    ASSERT_TRUE(ok(gpupool_sim_capture(kDevice, kGraphStream, 0)));
  }

  Way way_;
  gpupool_t* pool_ = nullptr;
  std::vector<Block> blocks_;
  uint64_t capture_ = 0;
};

class SleepFaults : public Sleep, public testing::WithParamInterface<Way> {
 protected:
  /// Runs `action` under a script; whether the script made it fail, or might have.
  static gpupool_status_t scripted(const std::string& text, const std::function<gpupool_status_t()>& action) {
    script(text);
    const gpupool_status_t status = action();
    script("");
    return status;
  }

  static bool is_allowed(gpupool_status_t status) {
    return status == GPUPOOL_SUCCESS || status == GPUPOOL_ERROR_DRIVER ||
           status == GPUPOOL_ERROR_OUT_OF_MEMORY || status == GPUPOOL_ERROR_HOST_OUT_OF_MEMORY ||
           status == GPUPOOL_ERROR_UNAVAILABLE;
  }

  /// How often a call is made by an undisturbed sleep, or wake.
  static uint64_t count(const char* call, const gpupool_stats_t& stats) {
    const std::pair<const char*, uint64_t> counts[] = {
        {"create", stats.driver.create.count},
        {"release", stats.driver.release.count},
        {"map", stats.driver.map.count},
        {"set_access", stats.driver.set_access.count},
        {"unmap", stats.driver.unmap.count},
        {"address", stats.driver.address.count},
        {"malloc", stats.driver.malloc.count},
        {"free", stats.driver.free.count},
        {"event_record", stats.driver.event_record.count},
        {"query", stats.driver.query.count},
        {"stream_wait", stats.driver.stream_wait.count},
        {"host_wait", stats.driver.host_wait.count},
        {"copy", stats.copy.count},
        {"stream", stats.stream.count},
    };
    for (const auto& [name, value] : counts) {
      if (std::strcmp(name, call) == 0) return value;
    }
    ADD_FAILURE() << call;
    return 0;
  }

  struct Counts {
    gpupool_stats_t before;
    gpupool_stats_t asleep;
    gpupool_stats_t after;
  };
  static Counts undisturbed() {
    Scene scene(GetParam());
    Counts counts{};
    counts.before = scene.stats();
    EXPECT_TRUE(ok(scene.sleep()));
    EXPECT_EQ(device_free(), kCapacity);
    counts.asleep = scene.stats();
    EXPECT_TRUE(ok(try_wake(scene.pool())));
    counts.after = scene.stats();
    scene.expect_whole();
    scene.end();
    return counts;
  }

  /// What was called while a script was on.
  struct Calls {
    gpupool_stats_t before;
    gpupool_stats_t after;
    uint64_t of(const char* call) const { return count(call, after) - count(call, before); }
  };

  Calls sleep_under(const std::string& text) {
    SCOPED_TRACE("sleep under " + text);
    restart();
    Scene scene(GetParam());
    Calls calls{scene.stats(), {}};
    const gpupool_status_t status = scripted(text, [&] { return scene.sleep(); });
    calls.after = scene.stats();
    EXPECT_TRUE(is_allowed(status)) << gpupool_status_name(status) << last_message();
    EXPECT_TRUE(ok(gpupool_validate(scene.pool())));
    if (status != GPUPOOL_SUCCESS && state_of(scene.pool()) == GPUPOOL_SLEEP_STATE_AWAKE) {
      scene.expect_whole();
      EXPECT_TRUE(ok(scene.sleep()));
    }
    EXPECT_EQ(state_of(scene.pool()), GPUPOOL_SLEEP_STATE_ASLEEP);
    EXPECT_TRUE(ok(try_wake(scene.pool())));
    scene.expect_whole();
    scene.end();
    return calls;
  }

  Calls wake_under(const std::string& text) {
    SCOPED_TRACE("wake under " + text);
    restart();
    Scene scene(GetParam());
    EXPECT_TRUE(ok(scene.sleep()));
    Calls calls{scene.stats(), {}};
    const gpupool_status_t status = scripted(text, [&] { return try_wake(scene.pool()); });
    calls.after = scene.stats();
    EXPECT_TRUE(is_allowed(status)) << gpupool_status_name(status) << last_message();
    EXPECT_TRUE(ok(gpupool_validate(scene.pool())));
    EXPECT_EQ(state_of(scene.pool()),
              status == GPUPOOL_SUCCESS ? GPUPOOL_SLEEP_STATE_AWAKE : GPUPOOL_SLEEP_STATE_ASLEEP);
    EXPECT_EQ(kCapacity - device_free(), scene.stats().all.reserved_bytes.current);
    if (status != GPUPOOL_SUCCESS && text.find('*') == std::string::npos) {
      EXPECT_EQ(calls.after.asleep_bytes,
                calls.before.asleep_bytes);  // S2: a failed wake leaves nothing there
    }
    EXPECT_TRUE(ok(try_wake(scene.pool())));
    scene.expect_whole();
    scene.end();
    return calls;
  }

  /// Each call fails at each of its occurrences.
  void fail_each_call() {
    const Counts counts = undisturbed();
    for (const char* call : kCallNames) {
      const uint64_t in_sleep = count(call, counts.asleep) - count(call, counts.before);
      const uint64_t in_wake = count(call, counts.after) - count(call, counts.asleep);
      const bool can_be_short = std::strcmp(call, "create") == 0 || std::strcmp(call, "malloc") == 0;
      for (const char* error : {"error", "out_of_memory"}) {
        if (!can_be_short && std::strcmp(error, "out_of_memory") == 0) continue;
        for (uint64_t n = 1; n <= in_sleep && !HasFailure(); ++n) {
          sleep_under(std::string(call) + ":" + std::to_string(n) + "=" + error);
        }
        for (uint64_t n = 1; n <= in_wake && !HasFailure(); ++n) {
          wake_under(std::string(call) + ":" + std::to_string(n) + "=" + error);
        }
      }
    }
    EXPECT_GT(count("copy", counts.after), 0u);
  }

  /// Also the undoing fails. If a call is made less than n times while all of the second kind fail, then that
  /// its nth would fail as well changes nothing.
  void fail_in_pairs(std::initializer_list<uint64_t> numbers) {
    for (const char* second : {"unmap", "create", "map", "set_access", "release", "host_wait", "free"}) {
      const std::string all = std::string(second) + ":*";
      const Calls in_sleep = sleep_under(all);
      const Calls in_wake = wake_under(all);
      for (const char* first :
           {"unmap", "create", "map", "set_access", "copy", "host_wait", "event_record"}) {
        if (std::strcmp(first, second) == 0) continue;
        for (const uint64_t n : numbers) {
          const std::string text = std::string(first) + ":" + std::to_string(n) + "," + all;
          if (n <= in_sleep.of(first)) sleep_under(text);
          if (n <= in_wake.of(first)) wake_under(text);
          if (HasFailure()) return;
        }
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(By, SleepFaults,
                         testing::Values(Way{"saving", GPUPOOL_SLEEP_MODE_SAVE, 0, false},
                                         Way{"dropping", GPUPOOL_SLEEP_MODE_DROP, 0, false},
                                         Way{"saving_a_graph", GPUPOOL_SLEEP_MODE_SAVE, 0, true},
                                         Way{"saving_a_graphs_own", GPUPOOL_SLEEP_MODE_SAVE,
                                             GPUPOOL_FLAG_CAPTURE_AWARE, true}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(SleepFaults, S1_S2_S39_OfAnyCallAtAnyTimeAreSurvived) {
  fail_each_call();
}

TEST_P(SleepFaults, ThatLastAreSurvived) {
  for (const char* call : kCallNames) {
    for (const char* error : {"error", "out_of_memory"}) {
      sleep_under(std::string(call) + ":*=" + error);
      wake_under(std::string(call) + ":*=" + error);
      if (HasFailure()) return;
    }
  }
}

TEST_P(SleepFaults, InPairsAreSurvived) {
  fail_in_pairs({1, 2, 4});
}

TEST_P(SleepFaults, OfTheEndOfASleepingPoolLoseNothing) {
  for (const char* call : kCallNames) {
    for (uint64_t n = 1; n <= 3; ++n) {
      const std::string text = std::string(call) + ":" + std::to_string(n);
      SCOPED_TRACE(text);
      restart();
      gpupool_t* pool = nullptr;
      gpupool_config_t config = empty_config();
      config.backend = GPUPOOL_BACKEND_SIM;
      ASSERT_TRUE(ok(gpupool_create(&config, &pool)));
      gpupool_ptr_t block = 0;
      ASSERT_TRUE(ok(gpupool_malloc(pool, 20 * kMiB, 0, &block)));
      ASSERT_TRUE(ok(try_sleep(pool, GetParam().mode)));
      ASSERT_TRUE(ok(gpupool_free(pool, block, 0)));
      script(text);
      EXPECT_TRUE(ok(gpupool_destroy(pool)));
      script("");
      EXPECT_EQ(device_free(), kCapacity);
      std::string last;
      EXPECT_EQ(fault_count(&last), 0u) << last;
    }
  }
}

/// The same where the copies of several batches are under way at once.
class SleepFaultsInBatches : public SleepFaults {
  const Batches batches_{kMiB};
};
INSTANTIATE_TEST_SUITE_P(By, SleepFaultsInBatches,
                         testing::Values(Way{"saving", GPUPOOL_SLEEP_MODE_SAVE, 0, false},
                                         Way{"dropping", GPUPOOL_SLEEP_MODE_DROP, 0, false},
                                         Way{"saving_a_graph", GPUPOOL_SLEEP_MODE_SAVE, 0, true}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(SleepFaultsInBatches, S1_S2_S39_OfAnyCallAtAnyTimeAreSurvived) {
  const Counts counts = undisturbed();
  // An event is behind the copies of each batch.
  EXPECT_GE(count("event_record", counts.after) - count("event_record", counts.asleep), 4u);
  fail_each_call();
}

TEST_P(SleepFaultsInBatches, InPairsAreSurvived) {
  fail_in_pairs({2});
}

}  // namespace
}  // namespace sleep_test
