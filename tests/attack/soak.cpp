// SPDX-License-Identifier: Apache-2.0
// Random operations, for as long as you like, against a model: streams that come and go, threads that switch
// streams, captures, pools that end with live blocks. Blocks keep their contents, statistics match the model,
// and the process is no larger in the second half of a run than in the first.
//
// ATTACK_OPERATIONS (400,000), ATTACK_SEED (0): how many, and which. A soak is 10,000,000 or more.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "attack/lab.hpp"
#include "attack/team.hpp"

namespace attack {
namespace {

constexpr int32_t kDevice = 5;
constexpr uint64_t kCapacity = kGiB;
constexpr size_t kThreads = 6;
constexpr size_t kStreams = 12;
constexpr size_t kMostLive = 1500;
constexpr uint64_t kMostLiveBytes = 512 * kMiB;
constexpr uint64_t kEdge = 1024;  // bytes that are written at each end of a block

struct Pool {
  gpupool_t* handle = nullptr;
  bool is_aware = false;
  bool is_destroyed = false;
  uint64_t limit = 0;
  uint64_t requested = 0;
  uint64_t allocated = 0;
  uint64_t blocks = 0;
};

struct Block {
  uint64_t size = 0;
  gpupool_stream_t stream = 0;
  Pool* pool = nullptr;
  uint64_t stamp = 0;
  bool orphan = false;  // its stream has been destroyed
  bool shared = false;  // another stream used it last
  size_t position = 0;  // in the list that blocks are picked from
};

/// A capture under way in the capture-aware pool.
struct Capture {
  gpupool_stream_t stream = 0;  // 0: none
  uint64_t number = 0;
  std::vector<std::pair<gpupool_ptr_t, uint64_t>> used;
  std::vector<gpupool_ptr_t> live;
};

/// How large everything was at a rest.
struct Size {
  uint64_t metadata;   // of the pools
  uint64_t memory;     // of the process
  uint64_t addresses;  // of the process
  uint64_t kept;       // by the simulated device, which remembers destroyed streams and captured work
};

uint64_t allocated_for(uint64_t size) {
  return (size + 511) / 512 * 512;
}

class Soak {
 public:
  Soak(uint64_t seed, uint32_t data) : data_(data), random_(seed), team_(kThreads) {
    configure_device(kDevice, data, kCapacity);
    free_at_start_ = free_on_device(kDevice);
    const gpupool_config_t plain = sim_config(kDevice);
    EXPECT_TRUE(ok(gpupool_create(&plain, &lab_)));
    for (size_t i = 0; i < pools_.size(); ++i) create_pool(i);
    while (streams_.size() < 4) create_stream();
  }
  Soak(const Soak&) = delete;
  Soak& operator=(const Soak&) = delete;

  void run(uint64_t operations) {
    const uint64_t between_rests = operations / 10;
    uint64_t next_rest = between_rests;
    for (uint64_t done = 0; done < operations && !failed();) {
      const size_t member = pick(team_.size());
      if (pick(500) == 0) team_.replace(member);
      const uint64_t turn = 1 + pick(200);
      team_.run(member, [&] {
        for (uint64_t i = 0; i < turn && !failed(); ++i) step();
      });
      done += turn;
      if (done >= next_rest && !failed()) {
        rest();
        next_rest += between_rests;
      }
    }
    if (!failed()) end();
  }

 private:
  static bool failed() { return testing::Test::HasFailure(); }
  uint64_t pick(uint64_t count) { return random_() % count; }

  uint64_t any_size() {
    switch (pick(12)) {
      case 0: return 8 + pick(8 * kMiB);
      case 1: return 8 + pick(kMiB);
      case 2: return kMiB * (1 + pick(6));
      case 3:
      case 4: return 8 + pick(64 * kKiB);
      case 5:
      case 6: return 512 * (1 + pick(16));
      default: return 8 + pick(3000);
    }
  }

  /// Every word of a small block, the edges of a large one; none where the device keeps no data.
  template <typename Visit>
  void for_words(gpupool_ptr_t address, uint64_t size, Visit&& visit) const {
    if (data_ != kWithData) return;
    const uint64_t words = size / 8;
    auto* const first = reinterpret_cast<uint64_t*>(address);
    const uint64_t edge = kEdge / 8;
    for (uint64_t i = 0; i < words; ++i) {
      if (i == edge && words > 2 * edge) i = words - edge;
      visit(first[i], i);
    }
  }

  // ---- steps

  void step() {
    const uint64_t dice = pick(1000);
    if (dice < 450) return allocate();
    if (dice < 900) return release_any();
    if (dice < 930) return look_at_any();
    if (dice < 955) return work();
    if (dice < 970) return share();
    if (dice < 978) return advance();
    if (dice < 983) return create_stream();
    if (dice < 988) return destroy_stream();
    if (dice < 990) return park_stream();
    if (dice < 993) return begin_capture();
    if (dice < 996) return end_capture();
    if (dice < 998) return change_pool();
    if (dice < 999) return (void)check_stats(any_pool());
    if (pick(4) == 0) return replace_pool();
    if (pick(10) == 0) check_snapshot(any_pool());
  }

  Pool& any_pool() { return *pools_[pick(pools_.size())]; }
  gpupool_stream_t any_stream() { return streams_[pick(streams_.size())]; }

  static bool is_shortage(gpupool_status_t status) {
    if (status == GPUPOOL_ERROR_OUT_OF_MEMORY || status == GPUPOOL_ERROR_OVER_LIMIT) return true;
    EXPECT_TRUE(ok(status));
    return status != GPUPOOL_SUCCESS;
  }

  void allocate() {
    if (live_.size() >= kMostLive || live_bytes_ >= kMostLiveBytes) return release_any();
    const gpupool_stream_t stream = any_stream();
    Pool& pool = stream == capture_.stream ? *aware() : any_pool();
    const uint64_t size = any_size();
    const uint64_t alignment = pick(20) == 0 ? uint64_t{1} << pick(22) : 512;
    gpupool_ptr_t address = 0;
    if (is_shortage(gpupool_malloc_aligned(pool.handle, size, alignment, stream, &address))) return;
    EXPECT_EQ(address % std::max<uint64_t>(alignment, 512), 0u);
    note(address, {size, stream, &pool, ++stamps_});
    // The kernels of a capture run later, if ever; all others write at once.
    if (!queue_work(stream, address, size, 10)) return;
    if (stream == capture_.stream) {
      capture_.used.emplace_back(address, size);
      ++captured_;
      capture_.live.push_back(address);
    } else {
      write(address);
    }
  }

  void note(gpupool_ptr_t address, const Block& block) {
    const auto next = live_.lower_bound(address);
    if (next != live_.end()) {
      EXPECT_LE(address + allocated_for(block.size), next->first) << "blocks overlap";
    }
    if (next != live_.begin()) {
      const auto& [before, other] = *std::prev(next);
      EXPECT_LE(before + allocated_for(other.size), address) << "blocks overlap";
    }
    live_.emplace(address, block).first->second.position = order_.size();
    order_.push_back(address);
    live_bytes_ += block.size;
    block.pool->requested += block.size;
    block.pool->allocated += allocated_for(block.size);
    ++block.pool->blocks;
  }

  void write(gpupool_ptr_t address) {
    const Block& block = live_.at(address);
    for_words(address, block.size, [&](uint64_t& word, uint64_t i) { word = block.stamp << 20 | i; });
  }

  void expect_written(gpupool_ptr_t address, const Block& block) {
    if (block.stream == capture_.stream && is_captured(address)) return;
    bool good = true;
    for_words(address, block.size,
              [&](uint64_t& word, uint64_t i) { good &= word == (block.stamp << 20 | i); });
    EXPECT_TRUE(good) << "a block of " << block.size << " bytes changed";
  }

  bool is_captured(gpupool_ptr_t address) const {
    return std::find(capture_.live.begin(), capture_.live.end(), address) != capture_.live.end();
  }

  /// By a number and not by an address, which the kernel chooses.
  std::map<gpupool_ptr_t, Block>::iterator any_block() { return live_.find(order_[pick(order_.size())]); }

  void release_any() {
    if (live_.empty()) return;
    const auto found = any_block();
    const auto& [address, block] = *found;
    gpupool_stream_t stream = block.stream;
    if (!is_captured(address) && (block.orphan || pick(4) == 0)) {
      stream = pick(8) == 0 ? kUnknownStream : any_stream();
      if (stream == capture_.stream) stream = streams_[0];
    }
    release(found, stream);
  }

  void release(std::map<gpupool_ptr_t, Block>::iterator found, gpupool_stream_t stream) {
    const auto& [address, block] = *found;
    expect_written(address, block);
    std::erase(capture_.live, address);
    Pool& pool = *block.pool;
    EXPECT_TRUE(ok(gpupool_free(pool.handle, address, stream)));
    pool.requested -= block.size;
    pool.allocated -= allocated_for(block.size);
    --pool.blocks;
    live_bytes_ -= block.size;
    live_.at(order_.back()).position = block.position;
    order_[block.position] = order_.back();
    order_.pop_back();
    live_.erase(found);
    if (pool.is_destroyed && pool.blocks == 0) {
      std::erase_if(ended_, [&](const auto& each) { return each.get() == &pool; });
      check_device();
    }
  }

  void look_at_any() {
    if (live_.empty()) return;
    const auto& [address, block] = *any_block();
    if (is_captured(address)) return;
    expect_written(address, block);
    if (block.pool->is_destroyed) return;
    gpupool_block_t info{};
    EXPECT_TRUE(ok(gpupool_block_info(block.pool->handle, address + pick(allocated_for(block.size)), &info,
                                      sizeof info)));
    EXPECT_EQ(info.address, address);
    EXPECT_EQ(info.requested_bytes, block.size);
    EXPECT_TRUE(
        refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(block.pool->handle, address + 8, block.stream)));
  }

  static bool queue_work(gpupool_stream_t stream, gpupool_ptr_t address, uint64_t size, uint64_t ns) {
    const gpupool_status_t status = gpupool_sim_work(kDevice, stream, address, size, ns);
    EXPECT_TRUE(ok(status));
    return status == GPUPOOL_SUCCESS;
  }

  void work() {
    if (live_.empty()) return;
    const auto& [address, block] = *any_block();
    if (block.orphan || block.shared || block.stream == capture_.stream) return;
    queue_work(block.stream, address, block.size, pick(300'000));
  }

  /// Another stream uses a block, after its own one, and is the last to do so.
  void share() {
    if (live_.empty()) return;
    auto& [address, block] = *any_block();
    const gpupool_stream_t stream = any_stream();
    if (block.orphan || block.shared || block.pool->is_destroyed || block.stream == capture_.stream ||
        stream == capture_.stream)
      return;
    EXPECT_TRUE(ok(gpupool_record_stream(block.pool->handle, address, stream)));
    EXPECT_TRUE(ok(gpupool_stream_synchronize(lab_, block.stream)));
    block.shared = queue_work(stream, address, block.size, pick(300'000)) && stream != block.stream;
  }

  void advance() { EXPECT_TRUE(ok(gpupool_sim_advance(kDevice, pick(1'000'000)))); }

  // ---- streams

  void create_stream() {
    if (streams_.size() >= kStreams) return;
    gpupool_stream_t stream = 0;
    EXPECT_TRUE(ok(gpupool_stream_create(lab_, &stream)));
    streams_.push_back(stream);
    ++streams_ever_;
  }

  /// Whether a pool has live blocks of a stream.
  bool is_named(const Pool& pool, gpupool_stream_t stream) const {
    return std::any_of(live_.begin(), live_.end(), [&](const auto& each) {
      return each.second.pool == &pool && each.second.stream == stream;
    });
  }

  /// Every pool is told first: that the stream ends, or, where nothing names it any more, that it may.
  void destroy_stream() {
    const size_t number = pick(streams_.size());
    const gpupool_stream_t stream = streams_[number];
    if (streams_.size() <= 2 || !ended_.empty() || stream == capture_.stream) return;
    for (const auto& pool : pools_) {
      const bool ends = is_named(*pool, stream) || pick(2) == 0;
      EXPECT_TRUE(ok(ends ? gpupool_release_stream(pool->handle, stream)
                          : gpupool_park_stream(pool->handle, stream)));
    }
    EXPECT_TRUE(ok(gpupool_stream_destroy(lab_, stream)));
    streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(number));
    for (auto& [address, block] : live_) {
      if (block.stream == stream) block.orphan = true;
    }
  }

  void park_stream() {
    const gpupool_stream_t stream = any_stream();
    Pool& pool = any_pool();
    // What is live could be worked on, of which a pool that has parked the stream would not know.
    if (stream == capture_.stream || is_named(pool, stream)) return;
    EXPECT_TRUE(ok(gpupool_park_stream(pool.handle, stream)));
  }

  // ---- captures

  Pool* aware() { return pools_[1].get(); }

  void begin_capture() {
    const gpupool_stream_t stream = any_stream();
    // What a capturing stream frees comes back after the capture; so it begins with nothing of its own.
    const bool has_blocks = std::any_of(live_.begin(), live_.end(),
                                        [&](const auto& each) { return each.second.stream == stream; });
    // A pool that ends in a capture is another story: see captures.cpp.
    if (capture_.stream != 0 || has_blocks || !ended_.empty()) return;
    EXPECT_TRUE(ok(gpupool_sim_capture(kDevice, stream, 1)));
    capture_.stream = stream;
    EXPECT_TRUE(ok(gpupool_capture_id(aware()->handle, stream, &capture_.number)));
  }

  /// Ends the capture, runs its graph a few times while others work, and lets it go.
  void end_capture() {
    if (capture_.stream == 0) return;
    Capture ended;
    std::swap(ended, capture_);
    EXPECT_TRUE(ok(gpupool_sim_capture(kDevice, ended.stream, 0)));
    for (int launch = 0; launch < 2; ++launch) {
      for (const auto& [address, size] : ended.used) {
        if (!queue_work(ended.stream, address, size, 10)) return;
        for_words(address, size, [&](uint64_t& word, uint64_t) { word = ~uint64_t{0}; });
      }
      for (int i = 0; i < 20 && !live_.empty(); ++i) {
        const auto& [address, block] = *any_block();
        const bool is_graphs = std::find(ended.live.begin(), ended.live.end(), address) != ended.live.end();
        if (!is_graphs) expect_written(address, block);
      }
      EXPECT_TRUE(ok(gpupool_trim(any_pool().handle, pick(kCapacity), nullptr)));
    }
    for (const gpupool_ptr_t address : ended.live) {
      write(address);
      release(live_.find(address), ended.stream);
    }
    EXPECT_TRUE(ok(gpupool_release_capture(aware()->handle, ended.number)));
  }

  // ---- pools

  void create_pool(size_t number) {
    auto pool = std::make_unique<Pool>();
    gpupool_config_t config = sim_config(kDevice);
    if (number == 1) config.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
    if (number == 2) config.limit_bytes = 64 * kMiB + pick(256 * kMiB);
    if (number == 3 && pick(2) == 0) config.mode = GPUPOOL_MODE_DRIVER;
    pool->is_aware = number == 1;
    pool->limit = config.limit_bytes;
    EXPECT_TRUE(ok(gpupool_create(&config, &pool->handle)));
    pools_[number] = std::move(pool);
  }

  /// What the device lacks is what pools hold: one that has ended holds nothing.
  void check_device() {
    if (!ended_.empty()) return;
    uint64_t reserved = 0;
    for (const auto& pool : pools_) reserved += check_stats(*pool).all.reserved_bytes.current;
    EXPECT_EQ(free_at_start_ - free_on_device(kDevice), reserved) << "a pool that has ended keeps memory";
  }

  /// The first pool stays for ever; others end, some of them with live blocks.
  void replace_pool() {
    const size_t number = 1 + pick(pools_.size() - 1);
    if (capture_.stream != 0 || !ended_.empty()) return;
    Pool& pool = *pools_[number];
    EXPECT_TRUE(ok(gpupool_destroy(pool.handle)));
    pool.is_destroyed = true;
    if (pool.blocks != 0) ended_.push_back(std::move(pools_[number]));
    create_pool(number);
    check_device();
  }

  void change_pool() {
    Pool& pool = any_pool();
    gpupool_t* const handle = pool.handle;
    switch (pick(8)) {
      case 0: EXPECT_TRUE(ok(gpupool_empty(handle, nullptr))); break;
      case 1:
      case 2: EXPECT_TRUE(ok(gpupool_trim(handle, pick(kMostLiveBytes), nullptr))); break;
      case 3: EXPECT_TRUE(ok(gpupool_synchronize(handle))); break;
      case 4:
        if (const gpupool_stream_t stream = any_stream(); stream != capture_.stream)
          (void)is_shortage(gpupool_reserve(handle, pick(128 * kMiB), stream));
        break;
      case 5: {
        const uint64_t limit = pick(3) == 0 ? 0 : pool.allocated + pick(256 * kMiB);
        if (!is_shortage(gpupool_set_limit(handle, limit))) pool.limit = limit;
        break;
      }
      case 6: EXPECT_TRUE(ok(gpupool_reset_peaks(handle))); break;
      default: EXPECT_TRUE(ok(gpupool_report(handle, nullptr, 0, nullptr))); break;
    }
  }

  // ---- what must be so

  gpupool_stats_t check_stats(const Pool& pool) {
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    EXPECT_TRUE(ok(gpupool_stats(pool.handle, &stats)));
    const gpupool_stat_group_t& all = stats.all;
    EXPECT_EQ(all.requested_bytes.current, pool.requested);
    EXPECT_EQ(all.allocated_bytes.current, pool.allocated);
    EXPECT_EQ(all.allocated_blocks.current, pool.blocks);
    EXPECT_GE(all.active_bytes.current, pool.allocated);
    EXPECT_EQ(all.reserved_bytes.current, all.active_bytes.current + stats.cached_bytes + stats.slack_bytes);
    EXPECT_EQ(stats.limit_bytes, pool.limit);
    EXPECT_TRUE(pool.limit == 0 || all.reserved_bytes.current <= pool.limit);
    for (const gpupool_stat_t* each : {&all.requested_bytes, &all.allocated_bytes, &all.active_bytes,
                                       &all.reserved_bytes, &all.allocated_blocks, &all.active_blocks}) {
      EXPECT_EQ(each->total_allocated - each->total_freed, each->current);
      EXPECT_GE(each->peak, each->current);
    }
    return stats;
  }

  void check_snapshot(const Pool& pool) {
    EXPECT_TRUE(ok(gpupool_validate(pool.handle)));
    size_t segments = 0;
    size_t count = 0;
    std::vector<gpupool_block_t> blocks(64 * kMostLive);
    EXPECT_TRUE(ok(gpupool_snapshot(pool.handle, nullptr, sizeof(gpupool_segment_t), 0, &segments,
                                    blocks.data(), sizeof blocks[0], blocks.size(), &count)));
    blocks.resize(std::min(count, blocks.size()));
    uint64_t live = 0;
    for (const gpupool_block_t& block : blocks) {
      if (block.state != GPUPOOL_BLOCK_LIVE) continue;
      ++live;
      const auto found = live_.find(block.address);
      EXPECT_TRUE(found != live_.end() && found->second.pool == &pool &&
                  found->second.size == block.requested_bytes);
    }
    EXPECT_EQ(live, pool.blocks);
  }

  /// Frees and gives back everything: then nothing may be left of what has been.
  void rest() {
    end_capture();
    while (!live_.empty() && !failed()) {
      const auto last = live_.find(order_.back());
      release(last, last->second.orphan ? streams_[0] : last->second.stream);
    }
    uint64_t metadata = 0;
    for (const auto& pool : pools_) {
      EXPECT_TRUE(ok(gpupool_empty(pool->handle, nullptr)));
      EXPECT_TRUE(ok(gpupool_validate(pool->handle)));
      const gpupool_stats_t stats = check_stats(*pool);
      EXPECT_EQ(stats.all.reserved_bytes.current, 0u) << "in pool " << &pool - pools_.data();
      metadata += stats.metadata_bytes;
    }
    sizes_.push_back(
        {metadata, memory_of_process(), addresses_of_process(), 200 * streams_ever_ + 96 * captured_});
    std::printf(
        "rest %zu: %llu streams so far, bytes: %llu of metadata, %llu of memory, %llu GiB of addresses\n",
        sizes_.size(), streams_ever_ + 0ULL, metadata + 0ULL, sizes_.back().memory + 0ULL,
        sizes_.back().addresses / kGiB + 0ULL);
    EXPECT_TRUE(ended_.empty());
    EXPECT_EQ(free_on_device(kDevice), free_at_start_);
    EXPECT_TRUE(has_no_faults(kDevice));
  }

  /// The most of the second half against the most of the first, which is long enough to have seen everything.
  void compare_halves() const {
    ASSERT_GE(sizes_.size(), 8u);
    const auto half = sizes_.begin() + static_cast<std::ptrdiff_t>(sizes_.size() / 2);
    const auto most = [](auto first, auto last, uint64_t Size::*what) {
      return (*std::max_element(first, last,
                                [&](const Size& a, const Size& b) { return a.*what < b.*what; })).*
             what;
    };
    const auto grown = [&](uint64_t Size::*what) {
      const uint64_t before = most(sizes_.begin(), half, what);
      return std::max(most(half, sizes_.end(), what), before) - before;
    };
    const uint64_t metadata = most(sizes_.begin(), half, &Size::metadata);
    EXPECT_LE(grown(&Size::metadata), metadata / 4 + kMiB);
    EXPECT_LE(grown(&Size::memory), metadata / 4 + kMiB + kNoise + grown(&Size::kept));
    // A few large ranges of addresses for each pool may be there or not.
    EXPECT_LE(grown(&Size::addresses), 4096 * kGiB);
  }

  void end() {
    rest();
    compare_halves();
    for (const auto& pool : pools_) EXPECT_TRUE(ok(gpupool_destroy(pool->handle)));
    for (const gpupool_stream_t stream : streams_) EXPECT_TRUE(ok(gpupool_stream_destroy(lab_, stream)));
    EXPECT_TRUE(ok(gpupool_destroy(lab_)));
  }

  uint32_t data_;
  std::mt19937_64 random_;
  Team team_;
  gpupool_t* lab_ = nullptr;  // creates streams, never allocates
  std::array<std::unique_ptr<Pool>, 4> pools_;
  std::vector<std::unique_ptr<Pool>> ended_;  // destroyed, with live blocks
  std::vector<gpupool_stream_t> streams_;
  std::map<gpupool_ptr_t, Block> live_;
  std::vector<gpupool_ptr_t> order_;  // the same blocks
  uint64_t live_bytes_ = 0;
  Capture capture_;
  uint64_t stamps_ = 0;
  uint64_t free_at_start_ = 0;
  uint64_t streams_ever_ = 0;
  uint64_t captured_ = 0;
  std::vector<Size> sizes_;
};

void run(uint32_t data) {
  // One arena for all threads: each would keep its own garbage, and how many there are is chance.
  mallopt(M_ARENA_MAX, 1);
  const uint64_t seed = size_from("ATTACK_SEED", 0);
  std::printf("seed %llu\n", seed + 0ULL);
  Soak(seed, data).run(std::max<uint64_t>(size_from("ATTACK_OPERATIONS", 400'000), 100'000));
}

// The kernel chooses the addresses, and with them may choose what follows.
TEST(Soak, KeepsWhatIsWritten) {
  run(kWithData);
}
// The same in every run.
TEST(Soak, IsAsTheModelSays) {
  run(kAddressesOnly);
}

}  // namespace
}  // namespace attack
