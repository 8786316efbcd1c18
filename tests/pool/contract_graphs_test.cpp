// SPDX-License-Identifier: Apache-2.0
// The contract of graphs: whatever a pool does after a capture, its graph runs as it did, until the capture
// is released. The simulated device runs what was captured, and checks each access then.
#include <algorithm>
#include <array>
#include <cstring>

#include "pool/contract.hpp"

namespace pool_test {
namespace {

constexpr uint64_t kGraphBlock = 4 * kMiB;

struct GraphCase {
  const char* name;
  gpupool_mode_t mode;
  uint32_t flags;
};

std::ostream& operator<<(std::ostream& out, const GraphCase& each) {
  return out << each.name;
}

class Graphs : public testing::TestWithParam<GraphCase> {
 protected:
  static constexpr int32_t kDevice = 0;

  void SetUp() override { configure_device(kDevice, 0, kGiB); }
  void TearDown() override { expect_no_faults(); }

  static gpupool_config_t config() {
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_SIM;
    config.device = kDevice;
    config.mode = GetParam().mode;
    config.flags = GetParam().flags;
    return config;
  }

  static uint64_t taken_from_device() {
    gpupool_device_info_t info{};
    info.struct_size = sizeof info;
    EXPECT_TRUE(ok(gpupool_device_info(GPUPOOL_BACKEND_SIM, kDevice, &info)));
    return info.total_bytes - info.free_bytes;
  }

  static void expect_no_faults() {
    uint64_t faults = 0;
    char text[512] = {};
    EXPECT_TRUE(ok(gpupool_sim_faults(kDevice, &faults, text, sizeof text)));
    EXPECT_EQ(faults, 0u) << text;
  }
};

/// A captured program of two kernels that write to temporary memory, and the results that they leave in live
/// blocks. The second one's memory may be the first one's, elsewhere.
class Graph {
 public:
  Graph(PoolUnderTest& pool, gpupool_stream_t stream) : pool_(pool), stream_(stream) {
    EXPECT_TRUE(ok(gpupool_sim_capture(0, stream, 1)));
    EXPECT_TRUE(ok(gpupool_capture_id(pool, stream, &capture_)));
    EXPECT_NE(capture_, 0u);
    const gpupool_ptr_t first = pool.malloc(kGraphBlock, stream);
    results_ = {pool.malloc(kGraphBlock, stream), pool.malloc(kGraphBlock, stream)};
    EXPECT_TRUE(ok(gpupool_fill(pool, first, 1, kGraphBlock, stream)));
    EXPECT_TRUE(ok(gpupool_copy(pool, results_[0], first, kGraphBlock, stream)));
    pool.free(first, stream);
    const gpupool_ptr_t second = pool.malloc(2 * kGraphBlock, stream);
    EXPECT_TRUE(ok(gpupool_fill(pool, second, 2, 2 * kGraphBlock, stream)));
    EXPECT_TRUE(ok(gpupool_copy(pool, results_[1], second + kGraphBlock, kGraphBlock, stream)));
    pool.free(second, stream);
    EXPECT_TRUE(ok(gpupool_sim_capture(0, stream, 0)));
  }

  /// Runs the graph, which must come to the same each time.
  void launch() {
    for (const gpupool_ptr_t result : results_) std::memset(reinterpret_cast<void*>(result), 0, kGraphBlock);
    ASSERT_TRUE(ok(gpupool_sim_launch(0, capture_, stream_)));
    ASSERT_TRUE(ok(gpupool_stream_synchronize(pool_, stream_)));
    for (size_t i = 0; i < results_.size(); ++i) {
      const std::string expected(kGraphBlock, static_cast<char>(i + 1));
      EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(results_[i]), expected.data(), kGraphBlock), 0)
          << i;
    }
  }

  void free_results() {
    for (const gpupool_ptr_t result : results_) pool_.free(result, stream_);
  }

  void release() { EXPECT_TRUE(ok(gpupool_release_capture(pool_, capture_))); }

 private:
  PoolUnderTest& pool_;
  gpupool_stream_t stream_;
  uint64_t capture_ = 0;
  std::array<gpupool_ptr_t, 2> results_{};
};

INSTANTIATE_TEST_SUITE_P(
    On, Graphs,
    testing::Values(GraphCase{"capture_aware", GPUPOOL_MODE_VMM, GPUPOOL_FLAG_CAPTURE_AWARE},
                    GraphCase{"pool_of_its_own", GPUPOOL_MODE_VMM, 0},
                    GraphCase{"driver_capture_aware", GPUPOOL_MODE_DRIVER, GPUPOOL_FLAG_CAPTURE_AWARE},
                    GraphCase{"driver_pool_of_its_own", GPUPOOL_MODE_DRIVER, 0}),
    [](const auto& each) { return std::string(each.param.name); });

TEST_P(Graphs, RunAsTheyDidWhateverThePoolDoes) {
  struct Step {
    const char* name;
    void (*act)(PoolUnderTest& pool, gpupool_stream_t stream, gpupool_stream_t other);
  };
  const Step steps[] = {
      {"nothing", [](PoolUnderTest&, gpupool_stream_t, gpupool_stream_t) {}},
      {"synchronize", [](PoolUnderTest& pool, gpupool_stream_t, gpupool_stream_t) { pool.synchronize(); }},
      {"a malloc that grows",
       [](PoolUnderTest& pool, gpupool_stream_t stream, gpupool_stream_t) {
         pool.free(pool.malloc(10 * kGraphBlock, stream), stream);
       }},
      {"a malloc that grows, on another stream",
       [](PoolUnderTest& pool, gpupool_stream_t, gpupool_stream_t other) {
         const gpupool_ptr_t block = pool.malloc(10 * kGraphBlock, other);
         EXPECT_TRUE(ok(gpupool_fill(pool, block, 9, 10 * kGraphBlock, other)));
         EXPECT_TRUE(ok(gpupool_stream_synchronize(pool, other)));
         pool.free(block, other);
       }},
      {"trim", [](PoolUnderTest& pool, gpupool_stream_t, gpupool_stream_t) { pool.trim(0); }},
      {"empty", [](PoolUnderTest& pool, gpupool_stream_t, gpupool_stream_t) { pool.empty(); }},
      {"another capture",
       [](PoolUnderTest& pool, gpupool_stream_t stream, gpupool_stream_t) {
         Graph another(pool, stream);
         another.launch();
         another.free_results();
       }},
      {"the stream's end",
       [](PoolUnderTest& pool, gpupool_stream_t, gpupool_stream_t other) {
         EXPECT_TRUE(ok(gpupool_release_stream(pool, other)));
         pool.empty();
       }},
  };
  for (const Step& step : steps) {
    SCOPED_TRACE(step.name);
    PoolUnderTest pool(config());
    gpupool_stream_t stream = 0;
    gpupool_stream_t other = 0;
    EXPECT_TRUE(ok(gpupool_stream_create(pool, &stream)));
    EXPECT_TRUE(ok(gpupool_stream_create(pool, &other)));
    pool.free(pool.malloc(3 * kGraphBlock, other), other);  // cached outside of the capture
    Graph graph(pool, stream);
    graph.launch();
    for (int i = 0; i < 2; ++i) {
      step.act(pool, stream, other);
      graph.launch();
      pool.validate();
      expect_no_faults();
      if (HasFailure()) return;
    }
    graph.free_results();
    EXPECT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
    EXPECT_TRUE(ok(gpupool_stream_destroy(pool, other)));
  }
  EXPECT_EQ(taken_from_device(), 0u);
}

TEST_P(Graphs, GiveTheirMemoryBackOnceReleased) {
  PoolUnderTest pool(config());
  gpupool_stream_t stream = 0;
  EXPECT_TRUE(ok(gpupool_stream_create(pool, &stream)));
  Graph graph(pool, stream);
  graph.launch();
  graph.free_results();
  pool.empty();
  EXPECT_GT(taken_from_device(), 0u) << "the graph may run again";
  graph.release();
  pool.empty();
  EXPECT_EQ(taken_from_device(), 0u);
  EXPECT_EQ(pool.reserved(), 0u);
  pool.validate();
  EXPECT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
}

TEST_P(Graphs, ThatAreReleasedWhileTheyRunAreWaitedFor) {
  PoolUnderTest pool(config());
  gpupool_stream_t stream = 0;
  EXPECT_TRUE(ok(gpupool_stream_create(pool, &stream)));
  uint64_t capture = 0;
  EXPECT_TRUE(ok(gpupool_sim_capture(0, stream, 1)));
  EXPECT_TRUE(ok(gpupool_capture_id(pool, stream, &capture)));
  const gpupool_ptr_t block = pool.malloc(kGraphBlock, stream);
  EXPECT_TRUE(ok(gpupool_sim_work(0, stream, block, kGraphBlock, 1'000'000'000)));
  pool.free(block, stream);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_release_capture(pool, capture)));
  EXPECT_TRUE(ok(gpupool_sim_capture(0, stream, 0)));
  EXPECT_TRUE(ok(gpupool_sim_launch(0, capture, stream)));
  EXPECT_TRUE(ok(gpupool_release_capture(pool, capture)));
  pool.empty();
  EXPECT_EQ(taken_from_device(), 0u);
  EXPECT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
}

/// What a hundred captures that were released leave behind.
struct Remains {
  uint64_t reserved_growth;  // since the fiftieth one, in bytes: by then the pool moves nothing any more
  double metadata_growth;    // since the tenth one, as a factor
  uint64_t taken;            // by the emptied pool
};

Remains remains_of_many_captures(const gpupool_config_t& config, uint64_t (*taken)()) {
  PoolUnderTest pool(config);
  gpupool_stream_t stream = 0;
  EXPECT_TRUE(ok(gpupool_stream_create(pool, &stream)));
  uint64_t reserved = 0;
  uint64_t metadata = 0;
  for (int i = 0; i < 100; ++i) {
    Graph graph(pool, stream);
    if (i % 10 == 0) graph.launch();
    graph.free_results();
    graph.release();
    if (i == 9) metadata = pool.stats().metadata_bytes;
    if (i == 49) reserved = pool.reserved();
  }
  Remains remains{};
  remains.reserved_growth = pool.reserved() - std::min(pool.reserved(), reserved);
  remains.metadata_growth = static_cast<double>(pool.stats().metadata_bytes) / static_cast<double>(metadata);
  pool.empty();
  remains.taken = taken();
  EXPECT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
  return remains;
}

TEST_P(Graphs, ThatComeAndGoLeaveNoMemory) {
  const Remains remains = remains_of_many_captures(config(), taken_from_device);
  EXPECT_EQ(remains.reserved_growth, 0u);
  EXPECT_EQ(remains.taken, 0u);
}

TEST_P(Graphs, ThatComeAndGoLeaveNoRecords) {
  EXPECT_LT(remains_of_many_captures(config(), taken_from_device).metadata_growth, 1.1);
}

/// Windows of time pass, the pool grows and peaks are forgotten: whatever is surplus, a graph's memory is
/// not.
void expect_to_run_for_hours(PoolUnderTest& pool, Graph& graph, gpupool_stream_t stream) {
  for (int minute = 0; minute < 120; ++minute) {
    EXPECT_TRUE(ok(gpupool_sim_advance(0, 61'000'000'000)));
    if (minute % 3 == 0) {
      EXPECT_TRUE(ok(gpupool_reset_peaks(pool)));
    }
    const uint64_t size = static_cast<uint64_t>(1 + minute % 7) * kMiB + static_cast<uint64_t>(minute) * 512;
    const gpupool_ptr_t block = pool.malloc(size, stream);
    pool.free(pool.malloc(2 * size, stream), stream);
    pool.free(block, stream);
    pool.synchronize();
    if (minute % 10 == 0) graph.launch();
  }
}

TEST_P(Graphs, RunAsTheyDidForHours) {
  PoolUnderTest pool(config());
  gpupool_stream_t stream = 0;
  EXPECT_TRUE(ok(gpupool_stream_create(pool, &stream)));
  pool.free(pool.malloc(64 * kMiB, stream), stream);
  Graph graph(pool, stream);
  expect_to_run_for_hours(pool, graph, stream);
  graph.free_results();
  graph.release();
  pool.empty();
  EXPECT_EQ(pool.reserved(), 0u);
  EXPECT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
}

TEST_P(Graphs, OfChildrenRunAsTheyDidForHours) {
  if (GetParam().flags != 0) GTEST_SKIP() << "a child asks no captures";
  PoolUnderTest parent(config());
  gpupool_t* child = nullptr;
  EXPECT_TRUE(ok(gpupool_create_child(parent, &child)));
  PoolUnderTest pool(child);
  gpupool_stream_t stream = 0;
  EXPECT_TRUE(ok(gpupool_stream_create(pool, &stream)));
  Graph graph(pool, stream);
  expect_to_run_for_hours(pool, graph, stream);
  graph.free_results();
  EXPECT_TRUE(ok(gpupool_stream_destroy(pool, stream)));
}

}  // namespace
}  // namespace pool_test
