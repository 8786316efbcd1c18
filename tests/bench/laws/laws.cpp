// SPDX-License-Identifier: Apache-2.0
// What calls cost in a process that has lived long: a row for each law that tests/attack/laws.cpp holds to
// counts and bytes, in nanoseconds, on the simulated device.
//
//   laws [--large]     with --large, in the sizes that the laws name; else a tenth of them
#include <gpupool/gpupool.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int32_t kDevice = 0;
constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;

using Clock = std::chrono::steady_clock;

double ns_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

void check(gpupool_status_t status) {
  if (status == GPUPOOL_SUCCESS) return;
  gpupool_error_t error;
  error.struct_size = sizeof error;
  (void)gpupool_last_error(&error);
  std::fprintf(stderr, "laws: %s\n", error.message);
  std::exit(1);
}

/// `#` in `what` becomes the count.
void row(const char* what, size_t count, double measured, const char* unit, const char* target) {
  std::string text = what;
  if (const size_t at = text.find('#'); at != std::string::npos) text.replace(at, 1, std::to_string(count));
  std::printf("| %s | %.0f %s | %s |\n", text.c_str(), measured, unit, target);
  std::fflush(stdout);
}

/// A pool on the simulated device, which keeps addresses and no data.
class Pool {
 public:
  explicit Pool(uint64_t limit = 0, uint32_t flags = 0) {
    gpupool_config_t config;
    check(gpupool_config_init(&config, sizeof config));
    config.backend = GPUPOOL_BACKEND_SIM;
    config.device = kDevice;
    config.limit_bytes = limit;
    config.flags = flags;
    check(gpupool_create(&config, &handle_));
  }
  ~Pool() { gpupool_destroy(handle_); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  operator gpupool_t*() const { return handle_; }  // NOLINT: for calls of the C interface

  gpupool_ptr_t malloc(uint64_t size, gpupool_stream_t stream) const {
    gpupool_ptr_t block = 0;
    check(gpupool_malloc(handle_, size, stream, &block));
    return block;
  }
  void free(gpupool_ptr_t block, gpupool_stream_t stream) const {
    check(gpupool_free(handle_, block, stream));
  }
  std::vector<gpupool_ptr_t> mallocs(size_t count, uint64_t size, gpupool_stream_t stream) const {
    std::vector<gpupool_ptr_t> blocks(count);
    for (gpupool_ptr_t& block : blocks) block = malloc(size, stream);
    return blocks;
  }
  void free_all(const std::vector<gpupool_ptr_t>& blocks, gpupool_stream_t stream) const {
    for (const gpupool_ptr_t block : blocks) free(block, stream);
  }
  gpupool_stream_t stream() const {
    gpupool_stream_t stream = 0;
    check(gpupool_stream_create(handle_, &stream));
    return stream;
  }
  void destroy(gpupool_stream_t stream) const { check(gpupool_stream_destroy(handle_, stream)); }
  uint64_t metadata() const {
    gpupool_stats_t stats;
    stats.struct_size = sizeof stats;
    check(gpupool_stats(handle_, &stats));
    return stats.metadata_bytes;
  }

 private:
  gpupool_t* handle_ = nullptr;
};

/// Nanoseconds of a malloc and a free that no thread's cache has, in the best of many rounds: in the
/// process's first ones samples are dense. The sizes are large, because a cache may learn to serve small
/// ones.
double miss(const Pool& pool, gpupool_stream_t stream) {
  constexpr uint64_t kSizes = 4096;
  constexpr int kRounds = 100;
  double least = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    for (uint64_t i = 0; i < kSizes; ++i) pool.free(pool.malloc(kMiB + 512 * (1 + i), stream), stream);
    const double ns = ns_since(begin) / kSizes;
    if (round == 0 || ns < least) least = ns;
  }
  return least;
}

// ---- streams

/// What a stream costs beyond its own creation and end: it makes and frees 1 and 3 MiB.
void streams_come_and_go(uint64_t count, size_t at_a_time) {
  const Pool pool;
  std::vector<gpupool_stream_t> streams(at_a_time);
  const auto round = [&](bool with_work) {
    for (gpupool_stream_t& stream : streams) stream = pool.stream();
    for (const gpupool_stream_t stream : streams) {
      if (!with_work) continue;
      for (const uint64_t size : {kMiB, 3 * kMiB}) pool.free(pool.malloc(size, stream), stream);
    }
    for (const gpupool_stream_t stream : streams) pool.destroy(stream);
  };
  const auto time = [&](bool with_work) {
    const auto begin = Clock::now();
    for (uint64_t i = 0; i < count; i += at_a_time) round(with_work);
    return ns_since(begin) / static_cast<double>(count);
  };
  (void)time(true);
  const uint64_t before = pool.metadata();
  const double with_work = time(true);
  const double grown = static_cast<double>(pool.metadata()) - static_cast<double>(before);
  row(at_a_time == 1 ? "# streams come and go, one at a time: each, beyond the bare stream"
                     : "# streams come and go, 64 at a time: each, beyond the bare stream",
      count, with_work - time(false), "ns", "2,000 ns");
  row("records that stay of them", count, grown, "bytes", "0 bytes");
}

void many_streams(size_t count) {
  const Pool pool;
  const gpupool_stream_t first = pool.stream();
  std::vector<gpupool_stream_t> streams;
  const auto live = [&](size_t wanted) {
    while (streams.size() < wanted) {
      streams.push_back(pool.stream());
      pool.free(pool.malloc(kMiB, streams.back()), streams.back());
    }
  };
  live(10);
  const double few = miss(pool, first);
  live(count);
  row("a miss among # live streams, over one among 10", count, 100 * miss(pool, first) / few, "%", "200 %");

  constexpr size_t kFrees = 1000;
  const auto blocks = pool.mallocs(kFrees, kKiB, first);
  const auto begin = Clock::now();
  pool.free_all(blocks, GPUPOOL_STREAM_UNKNOWN);
  row("a free with an unknown stream, # streams seen", count, ns_since(begin) / kFrees, "ns", "2,000 ns");
  for (const gpupool_stream_t stream : streams) pool.destroy(stream);
}

void pending(size_t count) {
  const Pool pool;
  const gpupool_stream_t home = pool.stream();
  const gpupool_stream_t busy = pool.stream();
  const double before = miss(pool, home);
  check(gpupool_sim_work(kDevice, busy, 0, 0, 3'600'000'000'000));
  const auto blocks = pool.mallocs(count, 4 * kKiB, home);
  const size_t last = count - count / 10;
  Clock::time_point begin;
  for (size_t i = 0; i < count; ++i) {
    if (i == last) begin = Clock::now();
    check(gpupool_record_stream(pool, blocks[i], busy));
    pool.free(blocks[i], home);
  }
  row("record and free with # pending blocks", count, ns_since(begin) / static_cast<double>(count - last),
      "ns", "1,000 ns");
  row("a miss then, over one without", count, 100 * miss(pool, home) / before, "%", "200 %");
  check(gpupool_sim_advance(kDevice, 3'600'000'000'000));
}

// ---- calls that look at everything

/// The longest that another thread waits for the pool's lock while `work` runs.
template <typename Work>
void longest_wait(const char* what, size_t count, const Pool& pool, gpupool_ptr_t block, const Work& work,
                  const char* target = "100,000 ns") {
  std::atomic<bool> is_over{false};
  std::atomic<bool> has_begun{false};
  double longest = 0;
  std::thread other([&] {
    gpupool_block_t info;
    while (!is_over.load()) {
      const auto begin = Clock::now();
      check(gpupool_block_info(pool, block, &info, sizeof info));
      if (has_begun.load()) longest = std::max(longest, ns_since(begin));
      has_begun.store(true);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  while (!has_begun.load()) std::this_thread::yield();
  work();
  is_over.store(true);
  other.join();
  row(what, count, longest, "ns", target);
}

void stats_and_reports(size_t count) {
  const Pool pool(count * kKiB + kGiB);
  const gpupool_stream_t stream = pool.stream();
  const uint64_t bare = pool.metadata();
  const gpupool_ptr_t kept = pool.malloc(kKiB, stream);
  auto blocks = pool.mallocs(count, 512, stream);
  row("metadata of one of # live blocks", count,
      static_cast<double>(pool.metadata() - bare) / static_cast<double>(count), "bytes", "96 bytes");
  const auto time = [&](const char* what, const char* target, const auto& call) {
    const auto begin = Clock::now();
    call();
    row(what, count, ns_since(begin), "ns", target);
  };
  const auto stats = [&] { (void)pool.metadata(); };
  const auto fail = [&] {
    gpupool_ptr_t none = 0;
    if (gpupool_malloc(pool, 100 * kGiB, stream, &none) == GPUPOOL_SUCCESS) std::abort();
  };
  time("stats with # live blocks", "50,000 ns", stats);
  // What the machine adds to each of the rows below: beside mallocs that hold the lock for a microsecond.
  longest_wait(
      "a wait for the lock beside # mallocs that miss", count, pool, kept,
      [&] {
        for (size_t i = 0; i < count; ++i) pool.free(pool.malloc((1 + i % 64) * kKiB, stream), stream);
      },
      "none");
  longest_wait("a wait for the lock beside a snapshot of # blocks", count, pool, kept, [&] {
    size_t segments = 0;
    size_t seen = 0;
    check(gpupool_snapshot(pool, nullptr, sizeof(gpupool_segment_t), 0, &segments, nullptr,
                           sizeof(gpupool_block_t), 0, &seen));
  });
  pool.free_all(blocks, stream);
  time("stats with # cached blocks", "50,000 ns", stats);
  // The C library sorts what earlier rows have freed at its next large malloc: not under the pool's lock.
  void* volatile large = std::malloc(64 * kKiB);
  std::free(large);
  longest_wait("a wait for the lock beside a malloc that fails, # blocks cached", count, pool, kept, fail);
  blocks = pool.mallocs(count, 512, stream);
  pool.free_all(blocks, stream);
  longest_wait("a wait for the lock beside gpupool_empty of # blocks", count, pool, kept,
               [&] { check(gpupool_empty(pool, nullptr)); });
}

/// The longest of some mallocs after a thread has freed many blocks in random order.
void cached(size_t count) {
  const Pool pool;
  auto blocks = pool.mallocs(count, 64 * kKiB, 0);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(1));
  pool.free_all(blocks, 0);
  for (const uint64_t size : {192 * kKiB, 64 * kMiB}) {
    double longest = 0;
    for (int i = 0; i < 8; ++i) {
      const auto begin = Clock::now();
      (void)pool.malloc(size, 0);
      longest = std::max(longest, ns_since(begin));
    }
    row(size < kMiB ? "the longest malloc of 192 KiB after # frees of 64 KiB, in random order"
                    : "the longest malloc of 64 MiB then",
        count, longest, "ns", "100,000 ns");
  }
}

void best_fit(size_t holes) {
  const Pool pool;
  const gpupool_stream_t stream = pool.stream();
  const auto blocks = pool.mallocs(2 * holes, 64 * 512, stream);
  for (size_t i = 0; i < blocks.size(); i += 2) pool.free(blocks[i], stream);
  check(gpupool_empty(pool, nullptr));  // of what lies in the thread's cache
  constexpr size_t kMallocs = 1000;
  (void)pool.mallocs(kMallocs, 65 * 512, stream);  // grows
  const auto begin = Clock::now();
  (void)pool.mallocs(kMallocs, 65 * 512, stream);
  row("best fit beside # holes that are a little too small", holes, ns_since(begin) / kMallocs, "ns",
      "1,000 ns");
}

// ---- ever

void ever(size_t count) {
  const Pool pool;
  const gpupool_stream_t stream = pool.stream();
  const double before = miss(pool, stream);
  for (size_t i = 0; i < count; ++i) {
    const Pool other;
    other.free(other.malloc(kKiB, 1000), 1000);
  }
  row("a miss after # pools have come and gone, over one before", count, 100 * miss(pool, stream) / before,
      "%", "flat");
  for (size_t i = 0; i < count; ++i) {
    std::thread([&] {
      pool.free(pool.malloc(kKiB, stream), stream);
      pool.free(pool.malloc(3 * kKiB, stream), stream);
    }).join();
  }
  row("a miss after # threads, over one before", count, 100 * miss(pool, stream) / before, "%", "flat");
}

}  // namespace

int main(int count, char** words) {
  const bool is_large = count == 2 && std::strcmp(words[1], "--large") == 0;
  if (count > 2 || (count == 2 && !is_large)) {
    std::fprintf(stderr, "laws [--large]\n");
    return 2;
  }
  const uint64_t parts = is_large ? 1 : 10;
  gpupool_sim_config_t config{};
  config.struct_size = sizeof config;
  config.data = 2;  // addresses only
  check(gpupool_sim_configure(kDevice, &config));
  std::printf("| law | measured | target |\n|---|---|---|\n");
  streams_come_and_go(1'000'000 / parts, 1);
  streams_come_and_go(1'000'000 / parts, 64);
  many_streams(10'000 / parts);
  pending(100'000 / parts);
  stats_and_reports(1'000'000 / parts);
  cached(300'000 / parts);
  best_fit(200'000 / parts);
  ever(100'000 / parts);
  return 0;
}
