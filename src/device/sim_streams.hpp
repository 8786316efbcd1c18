// SPDX-License-Identifier: Apache-2.0
// Streams, events and capture in virtual time: a stream is the moment at which its queued work ends.
//
// Any number is a stream from its first use on; a stream that was destroyed is not. Stream 0 is one like the
// others: it does not synchronise with them, as CUDA's legacy default stream does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "device/device.hpp"
#include "device/sim_clock.hpp"

namespace gpupool {

struct SimStream {
  uint64_t busy_until = 0;
  uint64_t capture = 0;  // names the capture under way; 0: none
};

/// Not thread-safe: the device's lock is held.
class SimStreams {
 public:
  SimStreams(SimClock& clock, SimFaults& faults) : clock_(clock), faults_(faults) {}

  /// The stream of this number; refused if it was destroyed. `call` is for the message.
  Status find(const char* call, Stream number, SimStream*& stream);
  /// Queues work that ends at `end`.
  void queue(SimStream& stream, uint64_t end) noexcept {
    stream.busy_until = end;
    latest_end_ = std::max(latest_end_, end);
  }
  /// Waits for everything that is queued anywhere.
  void synchronize_all() noexcept { clock_.advance_to(latest_end_); }

  Status create(Stream& number);
  Status destroy(Stream number);
  Status query_stream(Stream number, bool& idle);
  Status synchronize_stream(Stream number);

  Status record(Stream number, Event& event);
  Status query(Event event, bool& passed);
  Status wait(Stream number, Event event);
  Status synchronize(Event event);
  void recycle(Event event) noexcept;

  Status capture_id(Stream number, uint64_t& id);
  Status begin_capture(Stream number);
  Status end_capture(Stream number);

 private:
  struct EventState {
    uint64_t time = 0;     // kNever in a capture
    uint64_t capture = 0;  // that it was recorded in; 0: none
  };

  Status find_event(const char* call, Event number, const EventState*& event);
  Status refuse_in_capture(const char* call, Stream number);

  SimClock& clock_;
  SimFaults& faults_;
  uint64_t latest_end_ = 0;
  Stream next_stream_ = 0x1000;
  Event next_event_ = 1;
  uint64_t next_capture_ = 1;
  std::unordered_map<Stream, SimStream> streams_;
  std::unordered_set<Stream> destroyed_;
  std::unordered_map<Event, EventState> events_;
  std::unordered_set<uint64_t> captures_;  // under way
};

}  // namespace gpupool
