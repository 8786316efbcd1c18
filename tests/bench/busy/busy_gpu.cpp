// SPDX-License-Identifier: Apache-2.0
// Replays traces while the GPU is busy: every block is written by a kernel after its malloc and checked by
// one before its free, each on the block's stream, and each lasts so long that the host runs hundreds of
// milliseconds ahead. Prints one line of JSON per trace.
#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "gpu.hpp"
#include "harness/json.hpp"
#include "harness/latency.hpp"
#include "harness/trace.hpp"

namespace {

using gpupool_bench::Clock;
using gpupool_bench::Event;
using gpupool_bench::Histogram;
using gpupool_bench::JsonLine;
using gpupool_bench::nanoseconds_since;
using gpupool_bench::Trace;

struct Options {
  std::vector<std::string> files;
  int passes = 2;
  uint64_t ahead_ms = 200;
  double cap_over_live = 0;  // 0: none
  /// A pool for each stream: what it is like when streams cannot take from each other.
  bool is_pool_per_stream = false;
};

void check(gpupool_status_t status) {
  if (status == GPUPOOL_SUCCESS) return;
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  gpupool_last_error(&error);
  throw std::runtime_error(std::string(gpupool_status_name(status)) + ": " + error.message);
}

/// The pools of a replay, one or one a stream, with the sum of what they count.
class Pools {
 public:
  Pools(size_t count, gpupool_backend_t backend, uint64_t limit_bytes) {
    gpupool_config_t config;
    check(gpupool_config_init(&config, sizeof config));
    config.backend = backend;
    config.limit_bytes = limit_bytes;
    pools_.resize(count);
    for (gpupool_t*& pool : pools_) check(gpupool_create(&config, &pool));
  }
  ~Pools() {
    for (gpupool_t* pool : pools_) gpupool_destroy(pool);
  }
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;

  gpupool_t* of_stream(size_t stream) const { return pools_[stream % pools_.size()]; }

  template <class Value>
  uint64_t sum(const Value& value) const {
    uint64_t result = 0;
    for (gpupool_t* pool : pools_) {
      gpupool_stats_t stats{};
      stats.struct_size = sizeof stats;
      check(gpupool_stats(pool, &stats));
      result += value(stats);
    }
    return result;
  }

 private:
  std::vector<gpupool_t*> pools_;
};

class BusyReplay {
 public:
  BusyReplay(busy::Gpu& gpu, const Trace& trace, const Options& options)
      : gpu_(gpu),
        trace_(trace),
        options_(options),
        pools_(options.is_pool_per_stream ? trace.streams : 1, gpu.backend(),
               static_cast<uint64_t>(options.cap_over_live * static_cast<double>(trace.peak_live_bytes))),
        blocks_(trace.slots) {
    for (uint16_t i = 0; i < trace.streams; ++i) {
      streams_.emplace_back();
      check(gpupool_stream_create(pools_.of_stream(i), &streams_.back()));
    }
  }
  ~BusyReplay() {
    for (size_t i = 0; i < streams_.size(); ++i) gpupool_stream_destroy(pools_.of_stream(i), streams_[i]);
  }
  BusyReplay(const BusyReplay&) = delete;
  BusyReplay& operator=(const BusyReplay&) = delete;

  void run() {
    const uint64_t mismatches_before = gpu_.mismatches();
    std::vector<double> ahead_ms;
    std::vector<double> reserved;
    std::vector<double> host_waits;
    std::vector<double> stream_steals;
    for (int pass = 0; pass < options_.passes; ++pass) {
      for (size_t i = 0; i < trace_.events.size(); ++i) do_event(trace_.events[i], i);
      const Clock::time_point end = Clock::now();
      gpu_.mismatches();  // waits
      ahead_ms.push_back(static_cast<double>(nanoseconds_since(end)) / 1e6);
      free_the_rest();
      reserved.push_back(static_cast<double>(peak_reserved_) / static_cast<double>(trace_.peak_live_bytes));
      host_waits.push_back(count(&gpupool_driver_stats_t::host_wait));
      stream_steals.push_back(static_cast<double>(pools_.sum([](const auto& s) { return s.stream_steals; })));
    }
    JsonLine line;
    line.text("busy", trace_.name).text("device", gpu_.backend() == GPUPOOL_BACKEND_CUDA ? "cuda" : "sim");
    line.text("pools", options_.is_pool_per_stream ? "one for each stream" : "one");
    line.number("streams", trace_.streams).number("events", trace_.events.size());
    line.number("peak_live_bytes", trace_.peak_live_bytes).real("cap_over_live", options_.cap_over_live);
    if (gpu_.backend() == GPUPOOL_BACKEND_CUDA) {
      line.reals("ahead_ms", ahead_ms);
      line.real("busy_share", static_cast<double>(busy_samples_) / static_cast<double>(samples_));
    }
    line.reals("reserved_over_live", reserved).reals("host_waits", host_waits);
    line.reals("stream_steals", stream_steals).number("failed", failed_);
    line.number("mismatches", gpu_.mismatches() - mismatches_before);
    line.number("p50_ns", histogram_.quantile(0.5)).number("p9999_ns", histogram_.quantile(0.9999)).print();
  }

 private:
  struct Block {
    gpupool_ptr_t address;
    uint64_t bytes;
    uint32_t pattern;
    uint16_t stream;
  };

  double count(gpupool_call_stat_t gpupool_driver_stats_t::*call) const {
    return static_cast<double>(pools_.sum([=](const auto& stats) { return (stats.driver.*call).count; }));
  }

  uint64_t kernel_nanoseconds() const {
    constexpr uint64_t kQueue = 1000;  // about as many kernels as CUDA queues on a stream
    return options_.ahead_ms * 1000000 / kQueue;
  }

  void do_event(const Event& event, size_t index) {
    Block& block = blocks_[event.slot];
    if (event.is_malloc) {
      allocate(block, event);
    } else if (block.address != 0) {
      release(block);
    }
    if (index % 16 != 0) return;
    ++samples_;
    busy_samples_ += gpu_.is_busy(streams_[event.stream]) ? 1 : 0;
    peak_reserved_ = std::max(peak_reserved_,
                              pools_.sum([](const auto& stats) { return stats.all.reserved_bytes.current; }));
  }

  void allocate(Block& block, const Event& event) {
    const gpupool_stream_t stream = streams_[event.stream];
    block = {0, event.bytes, static_cast<uint32_t>(++writes_ * 0x9e3779b97f4a7c15 >> 32), event.stream};
    const Clock::time_point start = Clock::now();
    const gpupool_status_t status =
        gpupool_malloc(pools_.of_stream(event.stream), event.bytes, stream, &block.address);
    histogram_.add(nanoseconds_since(start));
    if (status != GPUPOOL_SUCCESS) {
      ++failed_;
    } else if (block.address != 0) {
      gpu_.touch(stream, block.address, block.bytes, block.pattern, false, kernel_nanoseconds());
    }
  }

  void release(Block& block) {
    const gpupool_stream_t stream = streams_[block.stream];
    gpu_.touch(stream, block.address, block.bytes, block.pattern, true, kernel_nanoseconds());
    check(gpupool_free(pools_.of_stream(block.stream), block.address, stream));
    block.address = 0;
  }

  void free_the_rest() {
    for (Block& block : blocks_) {
      if (block.address != 0) release(block);
    }
  }

  busy::Gpu& gpu_;
  const Trace& trace_;
  const Options& options_;
  Pools pools_;
  std::vector<gpupool_stream_t> streams_;
  std::vector<Block> blocks_;  // by slot
  Histogram histogram_;        // of mallocs
  uint64_t writes_ = 0;
  uint64_t failed_ = 0;
  uint64_t samples_ = 0;
  uint64_t busy_samples_ = 0;
  uint64_t peak_reserved_ = 0;  // sampled, since several pools have no common peak
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (++i == argc) throw std::invalid_argument(word + " needs a value");
      return std::string(argv[i]);
    };
    if (word == "--passes") {
      options.passes = std::stoi(value());
    } else if (word == "--ahead-ms") {
      options.ahead_ms = std::stoull(value());
    } else if (word == "--cap") {
      options.cap_over_live = std::stod(value());
    } else if (word == "--pool-per-stream") {
      options.is_pool_per_stream = true;
    } else if (word.starts_with("--")) {
      throw std::invalid_argument("unknown option " + word);
    } else {
      options.files.push_back(word);
    }
  }
  if (options.files.empty()) throw std::invalid_argument("which traces?");
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    const std::unique_ptr<busy::Gpu> gpu = busy::open_gpu();
    for (const std::string& file : options.files) {
      const Trace trace = gpupool_bench::load_trace(file);
      BusyReplay(*gpu, trace, options).run();
    }
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr,
                 "%s\nusage: busy_gpu [--passes N] [--ahead-ms N] [--cap X] [--pool-per-stream] TRACE...\n",
                 error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "busy_gpu: %s\n", error.what());
    return 1;
  }
  return 0;
}
