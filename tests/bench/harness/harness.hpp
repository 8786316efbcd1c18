// SPDX-License-Identifier: Apache-2.0
// One harness for every allocator, so that they differ only in their malloc and free. A peer is
//
//   struct Peer {
//     using Stream = ...;                       // copied about
//     static std::string label();               // "rmm_pool"
//     static std::string version();
//     explicit Peer(uint64_t cap_bytes);        // nothing cached yet; 0: no cap
//     static void enter_thread();               // first on each new thread; may be left out
//     Stream new_stream();
//     uint64_t malloc(uint64_t bytes, Stream);  // 0: out of memory; throws when something else fails
//     void free(uint64_t address, uint64_t bytes, Stream);
//     uint64_t reserved_bytes();                // physical memory held; 0 where the peer does not tell
//     uint64_t peak_reserved_bytes();
//     Counters counters();                      // may be left out
//   };
//
// and its program is `return gpupool_bench::bench_main<Peer>(argc, argv)`. It prints a line of JSON for each
// case.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>

#include "cases.hpp"
#include "json.hpp"
#include "patterns.hpp"
#include "replay.hpp"

namespace gpupool_bench {

struct Options {
  std::string command;
  std::vector<std::string> files;
  std::vector<int> threads = {1, 2, 4, 8, 16};
  std::vector<uint64_t> live_blocks = {1000, 10000};
  double seconds = 0.1;  // for a row of bench
  ReplayOptions replay;
  bool has_auto_cap = false;
};

constexpr const char* kUsage =
    "usage: PEER bench [--threads N,N...] [--live N,N...] [--seconds S]\n"
    "       PEER latency [--seconds S]\n"
    "       PEER replay [--passes N] [--seconds S] [--cap X|auto] [--timed] TRACE...\n"
    "       PEER patterns [--seconds S] FILE...\n"
    "A trace is plain text. --cap auto: 1.02 times the live peak, and 1.05 below 4 GB.\n";

template <class Number>
std::vector<Number> parse_list(const std::string& text) {
  std::vector<Number> list;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');)
    list.push_back(static_cast<Number>(std::stoull(word)));
  return list;
}

inline Options parse(int argc, char** argv) {
  Options options;
  if (argc < 2) throw std::invalid_argument("which command?");
  options.command = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (++i == argc) throw std::invalid_argument(word + " needs a value");
      return std::string(argv[i]);
    };
    if (word == "--threads") {
      options.threads = parse_list<int>(value());
    } else if (word == "--live") {
      options.live_blocks = parse_list<uint64_t>(value());
    } else if (word == "--seconds") {
      options.seconds = options.replay.seconds = std::stod(value());
    } else if (word == "--passes") {
      options.replay.passes = std::stoi(value());
    } else if (word == "--cap") {
      const std::string cap = value();
      options.has_auto_cap = cap == "auto";
      if (!options.has_auto_cap) options.replay.cap_over_live = std::stod(cap);
    } else if (word == "--timed") {
      options.replay.is_timed = true;
    } else if (word.starts_with("--")) {
      throw std::invalid_argument("unknown option " + word);
    } else {
      options.files.push_back(word);
    }
  }
  return options;
}

/// Runs a case in slices until `seconds` are used up, and prints the median of them.
template <class Case>
void measure(const JsonLine& about, Case& bench_case, double seconds) {
  constexpr size_t kRepeats = 5;  // odd, so that the median is one of them
  const auto run = [&](uint64_t repeats) { return bench_case.run(repeats); };
  const uint64_t count = std::max<uint64_t>(64, gpupool::cli::calibrate(run, seconds / kRepeats));
  std::vector<double> times;
  for (size_t i = 0; i < kRepeats; ++i) times.push_back(bench_case.run(count));
  std::sort(times.begin(), times.end());
  JsonLine line = about;
  line.real("ns", times[kRepeats / 2]).real("ns_min", times.front()).real("ns_max", times.back()).print();
}

template <class Peer>
JsonLine about(const std::string& name, uint64_t size, int threads, uint64_t live_blocks,
               uint64_t sizes = 1) {
  JsonLine line;
  line.text("peer", Peer::label()).text("case", name).number("size", size);
  line.number("threads", static_cast<uint64_t>(threads)).number("live_blocks", live_blocks);
  return line.number("sizes", sizes).flag("floor", gpupool::cli::is_floor(size, sizes));
}

/// The largest block of a churn among so many: about as much is live in each.
inline uint64_t churn_size(uint64_t live_blocks) {
  if (live_blocks == 1) return 512;  // the same again and again
  if (live_blocks <= 1000) return 16 * kMiB;
  if (live_blocks <= 10000) return kMiB;
  return live_blocks <= 100000 ? 64 * kKiB : 8 * kKiB;
}

/// The cases with several threads.
template <class Peer>
void run_threads(const Options& options) {
  for (const bool is_one_stream : {false, true}) {
    const char* const name = is_one_stream ? "pair_one_stream" : "pair_own_streams";
    for (const int threads : options.threads) {
      OneSizeCase<Peer> pair(64 * kKiB, threads, is_one_stream);
      measure(about<Peer>(name, 64 * kKiB, threads, 0), pair, options.seconds);
    }
  }
  constexpr uint64_t kLargest = gpupool::cli::kMixedSizes.back();
  constexpr uint64_t kSizes = gpupool::cli::kMixedSizes.size();
  for (const size_t streams : {size_t{8}, size_t{64}}) {
    constexpr int kThreads = 8;
    WanderingCase<Peer> wandering(kThreads, streams);
    measure(about<Peer>("wandering_" + std::to_string(streams), kLargest, kThreads, 0, kSizes), wandering,
            options.seconds);
  }
  for (const bool is_one_size : {true, false}) {
    FreeElsewhereCase<Peer> elsewhere(is_one_size ? 64 * kKiB : 0);
    measure(is_one_size ? about<Peer>("free_elsewhere", 64 * kKiB, 2, 0)
                        : about<Peer>("free_elsewhere_" + std::to_string(kSizes), kLargest, 2, 0, kSizes),
            elsewhere, options.seconds);
  }
  RingCase ring;
  measure(about<Peer>("ring", 0, 2, 0), ring, options.seconds);
}

template <class Peer>
void run_bench(const Options& options) {
  MutexCase mutex;
  measure(about<Peer>("mutex", 0, 1, 0), mutex, options.seconds);
  for (const uint64_t size : {4 * kKiB, 64 * kKiB, kMiB, 64 * kMiB, 256 * kMiB}) {
    OneSizeCase<Peer> pair(size, 1, false);
    measure(about<Peer>("pair", size, 1, 0), pair, options.seconds);
  }
  run_threads<Peer>(options);
  for (const size_t sizes : {size_t{64}, size_t{1024}}) {
    SizesCase<Peer> in_turn(sizes);
    measure(about<Peer>("sizes_in_turn_" + std::to_string(sizes), 512 * sizes, 1, 0, sizes), in_turn,
            options.seconds);
  }
  for (const uint64_t live_blocks : options.live_blocks) {
    Churn<Peer> churn(live_blocks, churn_size(live_blocks));
    measure(about<Peer>("churn", churn_size(live_blocks), 1, live_blocks, Churn<Peer>::kSizes), churn,
            options.seconds);
  }
}

/// Single mallocs while nothing is created: warm, and with slices thrown away in which more was reserved.
template <class Peer>
void run_latency(const Options& options) {
  for (const uint64_t live_blocks : {uint64_t{1}, uint64_t{1000}, uint64_t{10000}}) {
    Churn<Peer> churn(live_blocks, churn_size(live_blocks));
    Histogram histogram;
    uint64_t thrown_away = 0;
    const Clock::time_point start = Clock::now();
    while (static_cast<double>(nanoseconds_since(start)) < options.seconds * 1e9) {
      const uint64_t reserved = churn.peer().reserved_bytes();
      Histogram slice = histogram;
      for (int i = 0; i < 20000; ++i) churn.replace_timed(slice);
      if (churn.peer().reserved_bytes() == reserved) {
        histogram = slice;
      } else {
        ++thrown_away;
      }
    }
    JsonLine line = about<Peer>("latency", churn_size(live_blocks), 1, live_blocks,
                                live_blocks == 1 ? 1 : Churn<Peer>::kSizes);
    line.number("mallocs", histogram.count()).number("slices_thrown_away", thrown_away);
    line.number("p50_ns", histogram.quantile(0.5)).number("p99_ns", histogram.quantile(0.99));
    line.number("p9999_ns", histogram.quantile(0.9999)).number("most_ns", histogram.most());
    const Histogram nothing = time_nothing(histogram.mean(), histogram.count());
    line.number("nothing_p9999_ns", nothing.quantile(0.9999)).number("nothing_most_ns", nothing.most());
    line.raw("histogram", histogram.to_json()).print();
  }
}

template <class Peer>
void run_replay(const Options& options) {
  for (const std::string& file : options.files) {
    const Trace trace = load_trace(file);
    ReplayOptions replay = options.replay;
    if (options.has_auto_cap) replay.cap_over_live = trace.peak_live_bytes < 4000000000 ? 1.05 : 1.02;
    Replay<Peer>(trace, replay).run().print();
  }
}

template <class Peer>
void run_patterns(const Options& options) {
  for (const std::string& file : options.files) {
    for (const hunt::Pattern& pattern : load_patterns(file))
      run_pattern<Peer>(pattern, std::min(options.replay.seconds, 10.0));
  }
}

template <class Peer>
int bench_main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    if (options.command == "bench") {
      run_bench<Peer>(options);
    } else if (options.command == "latency") {
      run_latency<Peer>(options);
    } else if (options.command == "replay") {
      run_replay<Peer>(options);
    } else if (options.command == "patterns") {
      run_patterns<Peer>(options);
    } else if (options.command == "version") {
      JsonLine().text("peer", Peer::label()).text("version", Peer::version()).print();
    } else {
      throw std::invalid_argument("unknown command " + options.command);
    }
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s\n%s", error.what(), kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", Peer::label().c_str(), error.what());
    return 1;
  }
  return 0;
}

}  // namespace gpupool_bench
