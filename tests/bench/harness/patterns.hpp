// SPDX-License-Identifier: Apache-2.0
// What `PEER patterns` measures: the searcher's patterns (tests/attack/hunt), played in lockstep by real
// threads, and what each call takes once they have come to rest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "attack/hunt/allocator.hpp"
#include "attack/hunt/pattern.hpp"
#include "attack/hunt/player.hpp"
#include "attack/hunt/script.hpp"
#include "attack/hunt/times.hpp"
#include "json.hpp"
#include "latency.hpp"

namespace gpupool_bench {

/// A peer as the player's allocator. It leaves out what peers do not share: pools, other streams' use,
/// graphs, a GPU that works.
template <class Peer>
class PatternAllocator : public hunt::Allocator {
 public:
  PatternAllocator(uint64_t cap_bytes, size_t streams) : peer_(cap_bytes) {
    for (size_t i = 0; i < streams; ++i) streams_.push_back(peer_.new_stream());
  }

  void enter_thread() override {
    if constexpr (requires { Peer::enter_thread(); }) Peer::enter_thread();
  }
  uint64_t malloc(int /*pool*/, uint64_t bytes, int stream) override {
    return peer_.malloc(bytes, streams_[static_cast<size_t>(stream)]);
  }
  void free(int /*pool*/, uint64_t address, uint64_t bytes, int stream) override {
    peer_.free(address, bytes, streams_[static_cast<size_t>(stream)]);
  }
  uint64_t reserved_bytes() const override { return peer_.reserved_bytes(); }

 private:
  Peer peer_;
  std::vector<typename Peer::Stream> streams_;
};

/// Without what an allocator has to be gpupool for.
inline hunt::Pattern pattern_for_all(hunt::Pattern pattern) {
  pattern.pools = 1;
  pattern.record = pattern.captures = pattern.busy = 0;
  pattern.slack = hunt::kUsual;
  pattern.debug = hunt::kNoDebug;
  return pattern;
}

/// Prints what the pattern takes, unless it takes a peer longer than anybody waits.
template <class Peer>
void run_pattern(const hunt::Pattern& pattern, double seconds) {
  constexpr int kPeriodsToRest = 8;
  constexpr int kPeriodsMeasured = 16;
  hunt::Script script(pattern);
  const uint64_t live = hunt::live_peak(pattern);
  const auto cap =
      static_cast<uint64_t>(static_cast<double>(live) * static_cast<double>(pattern.limit) / 100);
  PatternAllocator<Peer> allocator(cap, script.streams());
  hunt::Player player(allocator, static_cast<size_t>(pattern.threads), script.slots());
  hunt::Times times;
  const Clock::time_point start = Clock::now();
  int period = 0;
  for (; period < kPeriodsToRest + kPeriodsMeasured; ++period) {
    if (static_cast<double>(nanoseconds_since(start)) > seconds * 1e9) break;
    player.play(script.next_period());
    if (period >= kPeriodsToRest) times.add(player.nanoseconds());
  }
  JsonLine line;
  line.text("peer", Peer::label()).text("pattern", hunt::to_line(pattern));
  line.flag("completed", period == kPeriodsToRest + kPeriodsMeasured);
  line.real("mean_ns", times.mean_ns()).real("longest_ns", times.longest_ns());
  line.number("reserved_bytes", allocator.reserved_bytes()).number("peak_live_bytes", live);
  line.number("failed_mallocs", player.failures()).print();
  player.play(script.last_frees());
}

/// A file has a pattern in each line; empty ones and those that begin with # are left out.
inline std::vector<hunt::Pattern> load_patterns(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file + " cannot be read");
  std::vector<hunt::Pattern> patterns;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') patterns.push_back(pattern_for_all(hunt::from_line(line)));
  }
  return patterns;
}

}  // namespace gpupool_bench
