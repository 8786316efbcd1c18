// SPDX-License-Identifier: Apache-2.0
// A trace as the peers read it: plain text, no library needed. The format is that of tests/data/README.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace gpupool_bench {

struct Event {
  uint64_t bytes;  // of the block, as requested
  uint32_t slot;   // where the block's address is kept; reused once the block is freed
  uint16_t stream;
  bool is_malloc;
};

struct Trace {
  std::string name;
  std::vector<Event> events;
  uint32_t slots = 0;
  uint16_t streams = 0;
  uint64_t peak_live_bytes = 0;  // each block rounded up to 512
};

inline uint64_t round_up_512(uint64_t bytes) {
  return (bytes + 511) / 512 * 512;
}

/// Builds a trace from its lines.
class TraceReader {
 public:
  void read(const std::string& line) {
    std::istringstream words(line);
    char kind = '#';
    uint64_t block = 0;
    words >> kind;
    if (kind == '#') return;
    words >> block;
    if (kind == 'a') {
      uint64_t bytes = 0;
      uint64_t stream = 0;
      words >> bytes >> stream;
      if (words.fail()) throw std::runtime_error("not a line of a trace: " + line);
      add(block, bytes, stream);
    } else {
      const auto found = live_.find(block);
      if (words.fail() || kind != 'f' || found == live_.end()) {
        throw std::runtime_error("not a line of a trace: " + line);
      }
      remove(found);
    }
  }

  Trace finish(const std::string& file) {
    trace_.name = file.substr(file.rfind('/') + 1);
    trace_.name = trace_.name.substr(0, trace_.name.find('.'));
    return std::move(trace_);
  }

 private:
  using Live = std::unordered_map<uint64_t, Event>;

  void add(uint64_t block, uint64_t bytes, uint64_t stream) {
    const auto [found, is_new] = streams_.try_emplace(stream, trace_.streams);
    if (is_new) ++trace_.streams;
    Event event{bytes, take_slot(), found->second, true};
    trace_.events.push_back(event);
    event.is_malloc = false;
    if (!live_.emplace(block, event).second) throw std::runtime_error("a block is allocated twice");
    live_bytes_ += round_up_512(bytes);
    trace_.peak_live_bytes = std::max(trace_.peak_live_bytes, live_bytes_);
  }

  void remove(Live::iterator found) {
    trace_.events.push_back(found->second);
    live_bytes_ -= round_up_512(found->second.bytes);
    free_slots_.push_back(found->second.slot);
    live_.erase(found);
  }

  /// The slot freed last, so that the replay's own table stays in the processor's cache.
  uint32_t take_slot() {
    if (free_slots_.empty()) return trace_.slots++;
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  Trace trace_;
  Live live_;
  uint64_t live_bytes_ = 0;
  std::vector<uint32_t> free_slots_;
  std::unordered_map<uint64_t, uint16_t> streams_;
};

inline Trace load_trace(const std::string& file) {
  std::ifstream text(file);
  if (!text) throw std::runtime_error(file + ": cannot be read");
  TraceReader reader;
  for (std::string line; std::getline(text, line);) reader.read(line);
  return reader.finish(file);
}

}  // namespace gpupool_bench
