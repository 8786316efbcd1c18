// SPDX-License-Identifier: Apache-2.0
// Graphs keep their memory (finding D0): random captures, frees, growth and releases, and replays that touch
// everything that ended captures ever used. A replay must find all of it mapped, and must change only its own
// graph's memory. In capture-aware pools, in pools that each belong to one graph, and in children of a pool.
//
// ATTACK_SEEDS: how many random runs. A failure names its seed; ATTACK_FIRST_SEED starts there.
#include <algorithm>
#include <memory>
#include <random>

#include "attack/lab.hpp"

namespace attack {
namespace {

constexpr int32_t kDevice = 2;
constexpr uint64_t kCapacity = 48 * kMiB;
constexpr size_t kStreams = 4;
constexpr size_t kMaxGraphs = 5;

enum class Pools { aware, own, both, child };

struct Block {
  gpupool_ptr_t address = 0;
  uint64_t size = 0;
  gpupool_stream_t stream = 0;
  gpupool_t* pool = nullptr;
  uint64_t stamp = 0;
};

struct Graph {
  uint64_t stamp = 0;
  uint64_t capture = 0;
  gpupool_stream_t stream = 0;
  gpupool_t* pool = nullptr;
  bool owns_pool = false;
  bool ended = false;
  bool stamped = false;     // a replay has written its memory
  std::vector<Block> used;  // all that the capture ever had
  std::vector<Block> live;
  std::vector<Block> later;  // of a pool of its own, allocated after the capture: never written
};

/// The words of a block that are written and compared: so many that any two blocks which share a page of
/// physical memory, or 512 bytes of it where one is small, share a word.
template <typename Visit>
void for_words(const Block& block, Visit&& visit) {
  const uint64_t step = block.size <= 64 * kKiB ? 512 : 4096;
  visit(reinterpret_cast<uint64_t*>(block.address));
  for (uint64_t at = (block.address / step + 1) * step; at + 8 <= block.address + block.size; at += step)
    visit(reinterpret_cast<uint64_t*>(at));
}

void write_stamp(const Block& block, uint64_t stamp) {
  for_words(block, [&](uint64_t* word) { *word = stamp; });
}

/// Tells standard error what happens if ATTACK_TRACE is set.
void trace(const char* what, const Block& block, gpupool_stream_t stream = 0) {
  static const bool is_wanted = std::getenv("ATTACK_TRACE") != nullptr;
  if (!is_wanted) return;
  std::fprintf(stderr, "%s: pool %p, block %#llx, %llu bytes, of stream %#llx, on %#llx\n", what,
               static_cast<void*>(block.pool), block.address + 0ULL, block.size + 0ULL, block.stream + 0ULL,
               stream + 0ULL);
}

bool has_stamp(const Block& block, uint64_t stamp) {
  bool all = true;
  for_words(block, [&](const uint64_t* word) { all = all && *word == stamp; });
  return all;
}

class Story {
 public:
  Story(Pools pools, uint32_t seed) : pools_(pools), random_(seed) {
    configure_device(kDevice, kWithData, kCapacity);
    free_at_start_ = free_on_device(kDevice);
    const gpupool_config_t plain = sim_config(kDevice);
    EXPECT_TRUE(ok(gpupool_create(&plain, &lab_)));
    EXPECT_TRUE(ok(gpupool_create(&plain, &other_)));
    if (pools_ == Pools::aware || pools_ == Pools::both) {
      gpupool_config_t aware = sim_config(kDevice);
      aware.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
      EXPECT_TRUE(ok(gpupool_create(&aware, &aware_)));
    }
    for (gpupool_stream_t& stream : streams_) EXPECT_TRUE(ok(gpupool_stream_create(lab_, &stream)));
  }
  Story(const Story&) = delete;
  Story& operator=(const Story&) = delete;

  void tell(int steps) {
    for (int i = 0; i < steps && !failed(); ++i) step();
    if (!failed()) check_everything();
    if (!failed()) end();
  }

 private:
  static bool failed() { return testing::Test::HasFailure(); }
  uint64_t pick(uint64_t count) { return random_() % count; }

  uint64_t any_size() {
    switch (pick(5)) {
      case 0: return 1 + pick(4000);
      case 1: return 1 + pick(kMiB);
      case 2: return (1 + pick(3)) * kMiB;
      case 3: return 1 + pick(2 * kMiB);
      default: return 2 * kMiB + pick(3 * kMiB);
    }
  }

  bool is_capturing(gpupool_stream_t stream) const {
    return std::any_of(graphs_.begin(), graphs_.end(),
                       [&](const auto& graph) { return !graph->ended && graph->stream == stream; });
  }
  /// A stream that does not capture, or 0.
  gpupool_stream_t free_stream() {
    const gpupool_stream_t stream = streams_[pick(kStreams)];
    return is_capturing(stream) ? 0 : stream;
  }
  gpupool_t* ordinary_pool() { return aware_ != nullptr && pick(2) == 0 ? aware_ : other_; }
  gpupool_t* any_pool() {
    if (!graphs_.empty() && pick(3) == 0) return graphs_[pick(graphs_.size())]->pool;
    return ordinary_pool();
  }
  Graph* any_graph(bool ended) {
    std::vector<Graph*> found;
    for (const auto& graph : graphs_) {
      if (graph->ended == ended) found.push_back(graph.get());
    }
    return found.empty() ? nullptr : found[pick(found.size())];
  }

  // ---- steps

  void step() {
    const uint64_t dice = pick(100);
    if (dice < 18) return malloc_outside();
    if (dice < 32) return free_outside();
    if (dice < 38) return begin();
    if (dice < 60) return in_capture();
    if (dice < 66) return end_capture();
    if (dice < 76) return replay();
    if (dice < 79) return free_after_capture();
    if (dice < 82) return release();
    if (dice < 84) return run_out();
    if (dice < 86) return malloc_later();
    on_pool(dice);
  }

  void on_pool(uint64_t dice) {
    // A child gives back what it is asked for.
    const bool gives_back = dice >= 88 && dice <= 91;
    gpupool_t* const pool = gives_back && pools_ == Pools::child ? ordinary_pool() : any_pool();
    trace("synchronize, empty, trim, reserve, ...", {.pool = pool, .stamp = dice});
    switch (dice) {
      case 86:
      case 87: EXPECT_TRUE(ok(gpupool_synchronize(pool))); break;
      case 88:
      case 89: EXPECT_TRUE(ok(gpupool_empty(pool, nullptr))); break;
      case 90:
      case 91: EXPECT_TRUE(ok(gpupool_trim(pool, pick(kCapacity), nullptr))); break;
      case 92: {
        const gpupool_stream_t stream = free_stream();
        // What a pool of a graph's own reserves is the graph's.
        if (stream != 0) allow_shortage(gpupool_reserve(ordinary_pool(), pick(kCapacity / 2), stream));
        break;
      }
      case 93: EXPECT_TRUE(ok(gpupool_sim_advance(kDevice, pick(2'000'000)))); break;
      case 94:
      case 95: return work();
      case 96: return wrong_captures();
      case 97: {
        gpupool_stats_t stats{};
        stats.struct_size = sizeof stats;
        EXPECT_TRUE(ok(gpupool_stats(pool, &stats)));
        break;
      }
      case 98: check_everything(); break;
      default: EXPECT_TRUE(ok(gpupool_validate(pool))); break;
    }
  }

  /// True if there is a block; a shortage is the only excuse.
  static bool allow_shortage(gpupool_status_t status) {
    if (status == GPUPOOL_ERROR_OUT_OF_MEMORY) return false;
    EXPECT_TRUE(ok(status));
    return status == GPUPOOL_SUCCESS;
  }

  bool malloc(gpupool_t* pool, gpupool_stream_t stream, uint64_t size, Block& block) {
    block = {0, size, stream, pool, ++stamps_};
    const bool done = allow_shortage(gpupool_malloc(pool, size, stream, &block.address));
    trace("malloc", block, stream);
    return done;
  }

  void free(const Block& block, gpupool_stream_t stream) {
    trace("free", block, stream);
    EXPECT_TRUE(ok(gpupool_free(block.pool, block.address, stream)));
  }

  static Block take(std::vector<Block>& blocks, uint64_t number) {
    std::swap(blocks[number], blocks.back());
    const Block block = blocks.back();
    blocks.pop_back();
    return block;
  }

  void malloc_outside() {
    const gpupool_stream_t stream = free_stream();
    Block block;
    if (stream == 0 || !malloc(ordinary_pool(), stream, any_size(), block)) return;
    if (!touch(block, stream)) return;
    write_stamp(block, block.stamp);
    outside_.push_back(block);
  }

  void free_outside() {
    if (outside_.empty()) return;
    const size_t number = pick(outside_.size());
    if (outside_[number].pool == other_ && is_capturing(outside_[number].stream)) return;
    const Block block = take(outside_, number);
    EXPECT_TRUE(has_stamp(block, block.stamp)) << "a block outside of captures changed";
    gpupool_stream_t stream = pick(3) == 0 ? free_stream() : block.stream;
    if (stream == 0) stream = block.stream;
    free(block, pick(12) == 0 ? kUnknownStream : stream);
  }

  /// Lets the device look whether all of a block is mapped, as a kernel would find out.
  static bool touch(const Block& block, gpupool_stream_t stream) {
    const gpupool_status_t status = gpupool_sim_work(kDevice, stream, block.address, block.size, 10);
    EXPECT_TRUE(ok(status));
    return status == GPUPOOL_SUCCESS;
  }

  void work() {
    if (outside_.empty()) return;
    const Block& block = outside_[pick(outside_.size())];
    if (is_capturing(block.stream)) return;
    trace("work", block, block.stream);
    EXPECT_TRUE(ok(gpupool_sim_work(kDevice, block.stream, block.address, block.size, pick(1'000'000))));
  }

  /// The other pool takes what the device has left, so that it empties the pools of graphs.
  void run_out() {
    const gpupool_stream_t stream = free_stream();
    Block block;
    if (stream == 0 || !malloc(other_, stream, kCapacity / 4 + pick(kCapacity), block)) return;
    free(block, stream);
    if (pick(2) != 0) return;
    EXPECT_TRUE(ok(gpupool_empty(other_, nullptr)));
  }

  // ---- graphs

  void begin() {
    const gpupool_stream_t stream = free_stream();
    if (stream == 0 || graphs_.size() == kMaxGraphs) return;
    auto graph = std::make_unique<Graph>();
    graph->stamp = ++stamps_;
    graph->stream = stream;
    graph->owns_pool =
        pools_ == Pools::own || pools_ == Pools::child || (pools_ == Pools::both && pick(2) == 0);
    graph->pool = aware_;
    if (pools_ == Pools::child) {
      EXPECT_TRUE(ok(gpupool_create_child(other_, &graph->pool)));
    } else if (graph->owns_pool) {
      const gpupool_config_t plain = sim_config(kDevice);
      EXPECT_TRUE(ok(gpupool_create(&plain, &graph->pool)));
    }
    EXPECT_EQ(capture_on(graph->pool, stream), 0u);
    EXPECT_TRUE(ok(gpupool_sim_capture(kDevice, stream, 1)));
    graph->capture = capture_on(graph->pool, stream);
    EXPECT_NE(graph->capture, 0u);
    graphs_.push_back(std::move(graph));
  }

  static uint64_t capture_on(gpupool_t* pool, gpupool_stream_t stream) {
    uint64_t capture = 0;
    EXPECT_TRUE(ok(gpupool_capture_id(pool, stream, &capture)));
    return capture;
  }

  void in_capture() {
    Graph* const graph = any_graph(false);
    if (graph == nullptr) return;
    if (graph->live.empty() || pick(100) < 55) {
      Block block;
      if (!malloc(graph->pool, graph->stream, any_size(), block)) return;
      // What the captured kernels will use must be mapped already.
      if (!touch(block, graph->stream)) return;
      graph->used.push_back(block);
      graph->live.push_back(block);
    } else {
      free(take(graph->live, pick(graph->live.size())), graph->stream);
    }
  }

  void end_capture() {
    Graph* const graph = any_graph(false);
    if (graph == nullptr) return;
    if (!graph->used.empty() && pools_ != Pools::child) {  // else the pool has not seen the capture
      EXPECT_TRUE(
          refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_release_capture(graph->pool, graph->capture)));
    }
    EXPECT_EQ(capture_on(graph->pool, graph->stream), graph->capture);
    EXPECT_TRUE(ok(gpupool_sim_capture(kDevice, graph->stream, 0)));
    EXPECT_EQ(capture_on(graph->pool, graph->stream), 0u);
    graph->ended = true;
  }

  void replay() {
    Graph* const graph = any_graph(true);
    const gpupool_stream_t stream = free_stream();
    if (graph == nullptr || stream == 0) return;
    for (const Block& block : graph->used) {
      trace("replay", block, stream);
      if (!touch(block, stream)) return;
    }
    for (const Block& block : graph->used) write_stamp(block, graph->stamp);
    graph->stamped = true;
    EXPECT_TRUE(ok(gpupool_stream_synchronize(lab_, stream)));
    check_everything();
  }

  void free_after_capture() {
    Graph* const graph = any_graph(true);
    if (graph == nullptr) return;
    std::vector<Block>& blocks = pick(3) == 0 ? graph->later : graph->live;
    if (blocks.empty()) return;
    const Block block = take(blocks, pick(blocks.size()));
    const gpupool_stream_t stream = is_capturing(block.stream) ? free_stream() : block.stream;
    if (stream == 0) {
      blocks.push_back(block);
    } else {
      free(block, stream);
    }
  }

  /// A pool of a graph's own may be used outside of captures too; what it hands out then may be the graph's.
  void malloc_later() {
    Graph* const graph = any_graph(true);
    const gpupool_stream_t stream = free_stream();
    Block block;
    if (graph == nullptr || !graph->owns_pool || stream == 0) return;
    if (malloc(graph->pool, stream, any_size(), block)) graph->later.push_back(block);
  }

  void wrong_captures() {
    gpupool_t* const pool = any_pool();
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_release_capture(pool, 0)));
    EXPECT_TRUE(ok(gpupool_release_capture(pool, ~uint64_t{0} >> 1)));
  }

  /// The graph is gone: its memory is the pool's again, and blocks that are still live are like any others.
  void release() {
    Graph* const graph = any_graph(true);
    if (graph == nullptr) return;
    // A pool that is destroyed while a stream which it has seen captures cannot wait for that stream.
    if (graph->owns_pool && any_graph(false) != nullptr) return;
    trace("release", graph->used.empty() ? Block{} : graph->used[0]);
    EXPECT_TRUE(ok(gpupool_release_capture(graph->pool, graph->capture)));
    // The stream may have used that pool while it captured for another one.
    if (aware_ != nullptr) {
      EXPECT_TRUE(ok(gpupool_release_capture(aware_, graph->capture)));
    }
    if (graph->owns_pool) {
      destroy_pool_of(*graph);
    } else {
      for (Block block : graph->live) {
        write_stamp(block, block.stamp);
        outside_.push_back(block);
      }
    }
    std::erase_if(graphs_, [&](const auto& each) { return each.get() == graph; });
    check_everything();
  }

  void destroy_pool_of(Graph& graph) {
    for (std::vector<Block>* blocks : {&graph.live, &graph.later}) {
      for (const Block& block : *blocks) free(block, kUnknownStream);
      blocks->clear();
    }
    EXPECT_TRUE(ok(gpupool_validate(graph.pool)));
    EXPECT_TRUE(ok(gpupool_destroy(graph.pool)));
  }

  // ---- what must be so

  void check_everything() {
    for (const Block& block : outside_) {
      if (!has_stamp(block, block.stamp)) ADD_FAILURE() << "a block outside of captures changed";
    }
    for (const auto& graph : graphs_) {
      if (!graph->stamped) continue;
      // One block after the other, for what a pool without the flag unmaps would end the process.
      for (const Block& block : graph->used) {
        if (!touch_nowhere(block)) return;
        if (!has_stamp(block, graph->stamp)) ADD_FAILURE() << "memory of a graph changed between its replays";
      }
    }
    EXPECT_TRUE(has_no_faults(kDevice));
  }

  /// On a stream of its own, which is idle afterwards.
  bool touch_nowhere(const Block& block) {
    if (!touch(block, kWatcher)) return false;
    EXPECT_TRUE(ok(gpupool_stream_synchronize(lab_, kWatcher)));
    return true;
  }

  void end() {
    while (any_graph(false) != nullptr) end_capture();
    while (any_graph(true) != nullptr && !failed()) release();
    for (const Block& block : outside_) free(block, block.stream);
    outside_.clear();
    if (failed()) return;
    for (gpupool_t* const pool : {aware_, other_}) {
      if (pool == nullptr) continue;
      EXPECT_TRUE(ok(gpupool_empty(pool, nullptr)));
      gpupool_stats_t stats{};
      stats.struct_size = sizeof stats;
      EXPECT_TRUE(ok(gpupool_stats(pool, &stats)));
      EXPECT_EQ(stats.all.active_bytes.current, 0u);
      EXPECT_EQ(stats.all.reserved_bytes.current, 0u) << "a released capture keeps memory";
      EXPECT_TRUE(ok(gpupool_validate(pool)));
      EXPECT_TRUE(ok(gpupool_destroy(pool)));
    }
    for (const gpupool_stream_t stream : streams_) EXPECT_TRUE(ok(gpupool_stream_destroy(lab_, stream)));
    EXPECT_TRUE(ok(gpupool_destroy(lab_)));
    EXPECT_EQ(free_on_device(kDevice), free_at_start_);
    EXPECT_TRUE(has_no_faults(kDevice));
  }

  static constexpr gpupool_stream_t kWatcher = 99;

  Pools pools_;
  std::mt19937_64 random_;
  gpupool_t* lab_ = nullptr;    // creates streams, never allocates
  gpupool_t* other_ = nullptr;  // knows nothing of captures
  gpupool_t* aware_ = nullptr;
  gpupool_stream_t streams_[kStreams] = {};
  std::vector<Block> outside_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  uint64_t stamps_ = 0;
  uint64_t free_at_start_ = 0;
};

/// A story that fails ends the process's part in it: its device stays in use.
void tell(Pools pools) {
  const auto first = static_cast<uint32_t>(size_from("ATTACK_FIRST_SEED", 0));
  const auto count = static_cast<uint32_t>(size_from("ATTACK_SEEDS", 100));
  for (uint32_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Story(pools, seed).tell(300);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Captures, KeepTheirMemoryInAwarePools) {
  tell(Pools::aware);
}
TEST(Captures, KeepTheirMemoryInPoolsOfTheirOwn) {
  tell(Pools::own);
}
TEST(Captures, KeepTheirMemoryInChildren) {
  tell(Pools::child);
}
TEST(Captures, KeepTheirMemorySideBySide) {
  tell(Pools::both);
}

}  // namespace
}  // namespace attack
