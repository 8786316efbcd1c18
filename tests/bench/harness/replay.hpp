// SPDX-License-Identifier: Apache-2.0
// What `PEER replay` measures: a trace played over and over in one pool, without and with a clock at each
// call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "json.hpp"
#include "latency.hpp"
#include "trace.hpp"

namespace gpupool_bench {

struct ReplayOptions {
  int passes = 2;
  double seconds = 1e9;      // no pass begins later, and one that lasts four times as long is broken off
  double cap_over_live = 0;  // 0: none
  bool is_timed = false;     // a clock at each call, for the histogram and the time in slow calls
};

/// A peer may tell what it counts: names, and values that only grow.
using Counters = std::vector<std::pair<const char*, double>>;

template <class Peer>
class Replay {
 public:
  Replay(const Trace& trace, const ReplayOptions& options)
      : trace_(trace), options_(options), cap_bytes_(cap_of(trace, options)), peer_(cap_bytes_) {
    for (uint16_t i = 0; i < trace.streams; ++i) streams_.push_back(peer_.new_stream());
    addresses_.resize(trace.slots);
  }

  JsonLine run() {
    start_ = Clock::now();
    for (int pass = 0; pass < options_.passes && !is_over_; ++pass) {
      if (seconds() > options_.seconds) break;
      run_pass();
    }
    return to_json();
  }

  void run_pass() {
    const Counters before = read_counters();
    histogram_ = {};
    done_ = 0;
    const Clock::time_point start = Clock::now();
    constexpr size_t kSlice = 256;  // events between two looks at the clock
    for (size_t begin = 0; begin < trace_.events.size() && !is_over_; begin += kSlice) {
      const size_t end = std::min(begin + kSlice, trace_.events.size());
      if (options_.is_timed) {
        play_timed(begin, end);
      } else {
        play(begin, end);
      }
      is_over_ = is_over_ || seconds() > 4 * options_.seconds;
    }
    ns_per_event_.push_back(static_cast<double>(nanoseconds_since(start)) /
                            static_cast<double>(done_ == 0 ? 1 : done_));
    is_complete_ = done_ == trace_.events.size();
    free_the_rest();
    slow_ms_.push_back(static_cast<double>(histogram_.slow_nanoseconds()) / 1e6);
    reserved_.push_back(static_cast<double>(peer_.peak_reserved_bytes()) /
                        static_cast<double>(trace_.peak_live_bytes));
    const Counters after = read_counters();
    for (size_t i = 0; i < after.size(); ++i) {
      counters_[i].second.push_back(after[i].second - before[i].second);
    }
  }

 private:
  static uint64_t cap_of(const Trace& trace, const ReplayOptions& options) {
    return static_cast<uint64_t>(options.cap_over_live * static_cast<double>(trace.peak_live_bytes));
  }

  double seconds() const { return static_cast<double>(nanoseconds_since(start_)) / 1e9; }

  /// False when there was no memory.
  bool do_event(const Event& event) {
    uint64_t& address = addresses_[event.slot];
    if (event.is_malloc) {
      address = peer_.malloc(event.bytes, streams_[event.stream]);
      return address != 0 || event.bytes == 0;
    }
    peer_.free(std::exchange(address, 0), event.bytes, streams_[event.stream]);
    return true;
  }

  /// The measured loop.
  void play(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (!do_event(trace_.events[i])) {
        fail();
        return;
      }
      ++done_;
    }
  }

  /// The same with one look at the clock for each event.
  void play_timed(size_t begin, size_t end) {
    Clock::time_point start = Clock::now();
    for (size_t i = begin; i < end; ++i) {
      if (!do_event(trace_.events[i])) {
        fail();
        return;
      }
      const Clock::time_point stop = Clock::now();
      histogram_.add(static_cast<uint64_t>(std::chrono::nanoseconds(stop - start).count()));
      start = stop;
      ++done_;
    }
  }

  void fail() { is_over_ = has_failed_ = true; }

  /// Frees what the pass left live, whether or not it came to its end.
  void free_the_rest() {
    std::vector<const Event*> owners(trace_.slots);
    for (size_t i = 0; i < done_; ++i) {
      const Event& event = trace_.events[i];
      owners[event.slot] = event.is_malloc ? &event : nullptr;
    }
    for (const Event* owner : owners) {
      if (owner == nullptr || addresses_[owner->slot] == 0) continue;
      peer_.free(std::exchange(addresses_[owner->slot], 0), owner->bytes, streams_[owner->stream]);
    }
  }

  Counters read_counters() {
    if constexpr (requires { peer_.counters(); }) {
      const Counters now = peer_.counters();
      if (counters_.empty()) {
        for (const auto& [name, value] : now) counters_.push_back({name, {}});
      }
      return now;
    } else {
      return {};
    }
  }

  JsonLine to_json() {
    JsonLine line;
    line.text("peer", Peer::label()).text("trace", trace_.name).number("events", trace_.events.size());
    line.number("streams", trace_.streams).number("peak_live_bytes", trace_.peak_live_bytes);
    line.real("cap_over_live", options_.cap_over_live).flag("timed", options_.is_timed);
    line.flag("completed", is_complete_).flag("out_of_memory", has_failed_);
    line.number("passes", ns_per_event_.size()).reals("ns_per_event", ns_per_event_);
    line.reals("reserved_over_live", reserved_);
    if (options_.is_timed) {
      line.reals("slow_ms", slow_ms_).number("p9999_ns", histogram_.quantile(0.9999));
      line.number("most_ns", histogram_.most());
    }
    for (const auto& [name, values] : counters_) line.reals(name, values);
    return line;
  }

  const Trace& trace_;
  const ReplayOptions& options_;
  const uint64_t cap_bytes_;
  Peer peer_;
  std::vector<typename Peer::Stream> streams_;
  std::vector<uint64_t> addresses_;  // by slot; 0: none
  Clock::time_point start_;
  size_t done_ = 0;  // events of this pass
  bool is_over_ = false;
  bool is_complete_ = false;
  bool has_failed_ = false;
  Histogram histogram_;  // of the last pass
  std::vector<double> ns_per_event_;
  std::vector<double> slow_ms_;
  std::vector<double> reserved_;
  std::vector<std::pair<const char*, std::vector<double>>> counters_;
};

}  // namespace gpupool_bench
