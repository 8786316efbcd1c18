// SPDX-License-Identifier: Apache-2.0
// Every driver call that a workload makes fails once, at each of its occurrences. The workload sees it as a
// status or not at all; the records stay consistent, no byte is lost, and the pool goes on.
#include <algorithm>
#include <array>
#include <iterator>

#include "pool/pool_under_test.hpp"

namespace pool_test {
namespace {

constexpr int32_t kDevice = 0;
constexpr uint64_t kCapacity = 128 * kMiB;
constexpr uint64_t kLimit = 48 * kMiB;

struct Case {
  const char* name;
  gpupool_mode_t mode;
  uint32_t flags;
};

std::ostream& operator<<(std::ostream& out, const Case& each) {
  return out << each.name;
}

void script(const std::string& text) {
  ASSERT_TRUE(ok(gpupool_sim_script(kDevice, text.c_str())));
}

uint64_t device_free() {
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  EXPECT_TRUE(ok(gpupool_device_info(GPUPOOL_BACKEND_SIM, kDevice, &info)));
  return info.free_bytes;
}

std::string faults() {
  uint64_t count = 0;
  char text[512] = {};
  EXPECT_TRUE(ok(gpupool_sim_faults(kDevice, &count, text, sizeof text)));
  return count == 0 ? "" : text;
}

/// Whether the thread's last failure was a scripted one. Each step begins with another failure.
bool was_scripted() {
  return last_message().find("as scripted") != std::string::npos;
}

/// A workload that keeps account of its own blocks, whatever fails.
class Workload {
 public:
  explicit Workload(const Case& each) : capture_aware_(each.flags != 0) {
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_SIM;
    config.device = kDevice;
    config.mode = each.mode;
    config.flags = each.flags;
    config.limit_bytes = kLimit;
    EXPECT_TRUE(ok(gpupool_create(&config, &pool_)));
    for (gpupool_stream_t& stream : streams_) EXPECT_TRUE(ok(gpupool_stream_create(pool_, &stream)));
  }

  gpupool_t* pool() const { return pool_; }
  bool fired() const { return fired_; }

  /// Mallocs, frees, steals from idle and from busy streams, shared blocks, and all that gives memory back.
  void run() {
    const auto [a, b, c] = streams_;
    // Streams that know of each other leave events behind.
    for (const gpupool_stream_t stream : {a, b, c}) step([&] { return gpupool_reserve(pool_, 0, stream); });
    const size_t first = malloc(5 * kMiB, a);
    const size_t small = malloc(700, a);
    const size_t second = malloc(9 * kMiB, a);
    work(a, first);
    free(first, a);
    free(malloc(11 * kMiB, a), a);
    free(malloc(12 * kMiB, b), b);  // from a busy stream or new
    const size_t shared = malloc(4 * kMiB, b);
    step([&] { return gpupool_record_stream(pool_, blocks_[shared].address, c); });
    // Not with the block, which would be a race: nothing makes c wait for what b may wait for.
    EXPECT_TRUE(ok(gpupool_sim_work(kDevice, c, 0, 0, 3'000'000)));
    free(shared, b);
    free(second, c);
    const size_t most = malloc(32 * kMiB, c);  // the limit leaves nothing: steals, waits
    work(c, most);
    free(most, kUnknownStream);
    step([&] { return gpupool_trim(pool_, 20 * kMiB, &released_); });
    step([&] { return gpupool_reserve(pool_, 40 * kMiB, b); });
    step([&] { return gpupool_synchronize(pool_); });
    const size_t late = malloc(30 * kMiB, b);
    step([&] { return gpupool_release_stream(pool_, c); });
    free(late, b);
    step([&] { return gpupool_set_limit(pool_, 24 * kMiB); });
    step([&] { return gpupool_set_limit(pool_, kLimit); });
    step([&] { return gpupool_empty(pool_, &released_); });
    free(malloc(16 * kMiB, a), a);
    free(small, b);
  }

  /// Cached memory of idle and of busy streams, and freed blocks that a stream still uses.
  void leave_all_kinds_of_memory() {
    const auto [a, b, c] = streams_;
    free(malloc(5 * kMiB, a), a);
    free(malloc(700, a), a);
    const size_t busy = malloc(6 * kMiB, b);
    const size_t shared = malloc(8 * kMiB, b);
    work(b, busy);
    work(c, shared);
    free(busy, b);
    free(shared, c);
  }

  /// With no more failures: everything can be had back, and the pool works as new.
  void recover(uint64_t free_at_start) {
    for (const Block& block : blocks_) {
      if (block.address == 0) continue;
      EXPECT_TRUE(ok(gpupool_free(pool_, block.address, block.stream)));
    }
    blocks_.clear();
    EXPECT_TRUE(ok(gpupool_synchronize(pool_)));
    EXPECT_TRUE(ok(gpupool_set_limit(pool_, kLimit)));
    EXPECT_TRUE(ok(gpupool_empty(pool_, nullptr)));
    const gpupool_stats_t stats = read_stats();
    EXPECT_EQ(stats.all.active_bytes.current, 0u);
    EXPECT_EQ(stats.all.reserved_bytes.current, 0u);
    EXPECT_EQ(stats.all.chunks.current, 0u);
    EXPECT_EQ(device_free(), free_at_start);
    for (const uint64_t size : {kLimit - 2 * kMiB, 500 * kKiB}) {
      gpupool_ptr_t block = 0;
      ASSERT_TRUE(ok(gpupool_malloc(pool_, size, streams_[0], &block)));
      EXPECT_TRUE(ok(gpupool_sim_work(kDevice, streams_[0], block, size, 10)));
      EXPECT_TRUE(ok(gpupool_free(pool_, block, streams_[0])));
    }
    EXPECT_TRUE(ok(gpupool_validate(pool_)));
  }

  gpupool_stats_t read_stats() {
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    EXPECT_TRUE(ok(gpupool_stats(pool_, &stats)));
    return stats;
  }

 private:
  struct Block {
    gpupool_ptr_t address;
    uint64_t size;
    gpupool_stream_t stream;
  };

  size_t malloc(uint64_t size, gpupool_stream_t stream) {
    gpupool_ptr_t block = 0;
    const gpupool_status_t status = attempt([&] { return gpupool_malloc(pool_, size, stream, &block); });
    EXPECT_EQ(status == GPUPOOL_SUCCESS, block != 0);
    blocks_.push_back({block, size, stream});
    if (block != 0) live_bytes_ += size;
    check();
    return blocks_.size() - 1;
  }

  void free(size_t block, gpupool_stream_t stream) {
    Block& freed = blocks_[block];
    if (freed.address == 0) return;  // its malloc had failed
    const gpupool_status_t status = gpupool_free(pool_, freed.address, stream);
    if (status == GPUPOOL_SUCCESS) {
      live_bytes_ -= freed.size;
      freed.address = 0;
    } else {
      // Only who must ask the driver can fail, and then the block is as live as before.
      EXPECT_TRUE(capture_aware_) << last_message();
      EXPECT_TRUE(was_scripted()) << last_message();
      gpupool_block_t info{};
      EXPECT_TRUE(ok(gpupool_block_info(pool_, freed.address, &info, sizeof info)));
      fired_ = true;
    }
    check();
  }

  void work(gpupool_stream_t stream, size_t block) {
    if (blocks_[block].address == 0) return;
    EXPECT_TRUE(
        ok(gpupool_sim_work(kDevice, stream, blocks_[block].address, blocks_[block].size, 3'000'000)));
  }

  /// A call that may fail, as a driver's failure and in no other way.
  template <typename Call>
  gpupool_status_t attempt(Call call) {
    gpupool_free(nullptr, 0, 0);  // a last failure that is not scripted
    released_ = 77;
    const gpupool_status_t status = call();
    fired_ = fired_ || was_scripted();
    EXPECT_TRUE(status == GPUPOOL_SUCCESS || status == GPUPOOL_ERROR_OUT_OF_MEMORY ||
                status == GPUPOOL_ERROR_OVER_LIMIT || status == GPUPOOL_ERROR_DRIVER)
        << gpupool_status_name(status) << ": " << last_message();
    // A failing call writes 0; the others were not given it.
    if (status != GPUPOOL_SUCCESS) {
      EXPECT_TRUE(released_ == 0 || released_ == 77) << released_;
    }
    return status;
  }

  template <typename Call>
  void step(Call call) {
    attempt(call);
    check();
  }

  void check() {
    ASSERT_TRUE(ok(gpupool_validate(pool_)));
    const gpupool_stats_t stats = read_stats();
    EXPECT_EQ(stats.all.requested_bytes.current, live_bytes_);
    EXPECT_LE(stats.all.reserved_bytes.peak, kLimit);
    EXPECT_EQ(kCapacity - device_free(), stats.all.reserved_bytes.current);
  }

  bool capture_aware_;
  bool fired_ = false;
  gpupool_t* pool_ = nullptr;
  std::array<gpupool_stream_t, 3> streams_{};
  std::vector<Block> blocks_;
  uint64_t live_bytes_ = 0;
  uint64_t released_ = 0;
};

/// The calls by the names that scripts have for them.
struct CallKind {
  const char* name;
  gpupool_call_stat_t gpupool_driver_stats_t::*stat;
};
constexpr CallKind kCalls[] = {
    {"create", &gpupool_driver_stats_t::create},
    {"release", &gpupool_driver_stats_t::release},
    {"map", &gpupool_driver_stats_t::map},
    {"set_access", &gpupool_driver_stats_t::set_access},
    {"unmap", &gpupool_driver_stats_t::unmap},
    {"address", &gpupool_driver_stats_t::address},
    {"malloc", &gpupool_driver_stats_t::malloc},
    {"free", &gpupool_driver_stats_t::free},
    {"event_record", &gpupool_driver_stats_t::event_record},
    {"query", &gpupool_driver_stats_t::query},
    {"stream_wait", &gpupool_driver_stats_t::stream_wait},
    {"host_wait", &gpupool_driver_stats_t::host_wait},
};

class Faults : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { restart(); }

  static void restart() {
    gpupool_sim_config_t config{};
    config.struct_size = sizeof config;
    config.data = 2;
    config.capacity_bytes = kCapacity;
    ASSERT_TRUE(ok(gpupool_sim_configure(kDevice, &config)));
  }

  /// How often the workload makes each call when nothing fails.
  static gpupool_driver_stats_t count_undisturbed() {
    Workload workload(GetParam());
    workload.run();
    EXPECT_FALSE(workload.fired());
    const gpupool_driver_stats_t calls = workload.read_stats().driver;
    workload.recover(kCapacity);
    EXPECT_TRUE(ok(gpupool_destroy(workload.pool())));
    EXPECT_EQ(faults(), "");
    return calls;
  }

  /// Runs the workload under a script. Returns whether that made any difference: to what a call came to, or
  /// to the calls that were made then.
  static bool run(const std::string& text, const gpupool_driver_stats_t& undisturbed) {
    SCOPED_TRACE(text);
    restart();
    Workload workload(GetParam());
    script(text);
    workload.run();
    script("");
    const gpupool_driver_stats_t calls = workload.read_stats().driver;
    workload.recover(kCapacity);
    EXPECT_TRUE(ok(gpupool_destroy(workload.pool())));
    EXPECT_EQ(device_free(), kCapacity);
    EXPECT_EQ(faults(), "");
    return workload.fired() || std::any_of(std::begin(kCalls), std::end(kCalls), [&](const CallKind& call) {
             return (calls.*call.stat).count != (undisturbed.*call.stat).count;
           });
  }
};
INSTANTIATE_TEST_SUITE_P(
    On, Faults,
    testing::Values(Case{"vmm", GPUPOOL_MODE_VMM, 0}, Case{"driver", GPUPOOL_MODE_DRIVER, 0},
                    Case{"vmm_capture_aware", GPUPOOL_MODE_VMM, GPUPOOL_FLAG_CAPTURE_AWARE}),
    [](const auto& each) { return std::string(each.param.name); });

TEST_P(Faults, OfAnyCallAtAnyTimeAreSurvived) {
  const gpupool_driver_stats_t undisturbed = count_undisturbed();
  for (const CallKind& call : kCalls) {
    const uint64_t count = (undisturbed.*call.stat).count;
    const bool is_vmm_call = std::strcmp(call.name, "malloc") != 0 && std::strcmp(call.name, "free") != 0;
    const bool is_ordering = call.stat == &gpupool_driver_stats_t::event_record ||
                             call.stat == &gpupool_driver_stats_t::query ||
                             call.stat == &gpupool_driver_stats_t::host_wait;
    const bool is_vmm = GetParam().mode == GPUPOOL_MODE_VMM;
    EXPECT_EQ(count > 0, is_ordering || is_vmm == is_vmm_call) << call.name;
    for (const char* error : {"error", "out_of_memory"}) {
      uint64_t fired = 0;
      for (uint64_t n = 1; n <= count; ++n) {
        fired += run(std::string(call.name) + ":" + std::to_string(n) + "=" + error, undisturbed) ? 1 : 0;
        if (HasFailure()) return;
      }
      // The checks in between ask the driver as well; what fails there is nobody's failure. And a stream that
      // gave no answer is asked less often afterwards, and leaves fewer events. An event may only tell how
      // far a stream is behind, or stand behind a free that nobody needs before the next one.
      const bool is_query = call.stat == &gpupool_driver_stats_t::query;
      const bool is_event = call.stat == &gpupool_driver_stats_t::event_record;
      EXPECT_GE(10 * fired, (is_query || is_event ? 5 : 10) * count) << call.name;
    }
  }
}

TEST_P(Faults, ThatLastAreSurvived) {
  const gpupool_driver_stats_t undisturbed = count_undisturbed();
  for (const CallKind& call : kCalls) {
    for (const char* error : {"error", "out_of_memory"}) {
      run(std::string(call.name) + ":*=" + error, undisturbed);
    }
  }
}

TEST_P(Faults, InPairsAreSurvived) {
  const gpupool_driver_stats_t undisturbed = count_undisturbed();
  for (const CallKind& first : kCalls) {
    const uint64_t count = (undisturbed.*first.stat).count;
    for (const CallKind& second : kCalls) {
      if (&first == &second) continue;
      for (uint64_t n = 1; n <= count; n += 1 + count / 8) {
        run(std::string(first.name) + ":" + std::to_string(n) + "=out_of_memory," + second.name + ":*",
            undisturbed);
        if (HasFailure()) return;
      }
    }
  }
}

// A pool that is destroyed does not come back to finish later: it tries again at once.
TEST_P(Faults, OfDestroyLoseNothing) {
  for (const CallKind& call : kCalls) {
    for (uint64_t n = 1;; ++n) {
      const std::string text = std::string(call.name) + ":" + std::to_string(n);
      SCOPED_TRACE(text);
      restart();
      Workload workload(GetParam());
      workload.leave_all_kinds_of_memory();
      script(text);
      gpupool_free(nullptr, 0, 0);
      EXPECT_TRUE(ok(gpupool_destroy(workload.pool())));
      const bool fired = was_scripted();
      script("");
      EXPECT_EQ(device_free(), kCapacity);
      EXPECT_EQ(faults(), "");
      if (!fired || HasFailure()) break;
    }
  }
}

// Where a mapping can neither be finished nor undone, its memory stays taken until it can, and counts.
TEST(LostMappings, CountTowardsTheLimit) {
  gpupool_sim_config_t sim{};
  sim.struct_size = sizeof sim;
  sim.data = 2;
  sim.capacity_bytes = kCapacity;
  ASSERT_TRUE(ok(gpupool_sim_configure(kDevice, &sim)));
  gpupool_config_t config = empty_config();
  config.backend = GPUPOOL_BACKEND_SIM;
  config.limit_bytes = kLimit;
  {
    PoolUnderTest pool(config);
    script("set_access:1,unmap:*");
    EXPECT_TRUE(refused(GPUPOOL_ERROR_DRIVER, pool.try_malloc(40 * kMiB)));
    pool.validate();
    gpupool_empty(pool, nullptr);
    for (uint64_t i = 0; i < 3; ++i) {
      gpupool_ptr_t block = 0;
      if (pool.try_malloc(kLimit - i * kGranule, 0, block) == GPUPOOL_SUCCESS) pool.free(block);
      EXPECT_LE(kCapacity - device_free(), kLimit);
      EXPECT_EQ(kCapacity - device_free(), pool.reserved());
      pool.validate();
    }
    script("");
    pool.empty();
    EXPECT_EQ(pool.reserved(), 0u);
    EXPECT_EQ(device_free(), kCapacity);
    pool.free(pool.malloc(kLimit));
  }
  EXPECT_EQ(device_free(), kCapacity);
  EXPECT_EQ(faults(), "");
}

}  // namespace
}  // namespace pool_test
