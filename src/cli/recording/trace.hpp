// SPDX-License-Identifier: Apache-2.0
// A recorded workload: the mallocs and frees of a program, in order.
//
//   # comment
//   # duration SECONDS     how long the recorded program ran
//   a ID BYTES STREAM     block ID is allocated: requested bytes, stream number
//   f ID                  block ID is freed, on the stream it was allocated for
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpupool::cli {

/// One malloc or free, ready to be replayed: numbers are indices into small tables.
struct TraceEvent {
  uint64_t bytes;   // of the block, as requested
  uint32_t slot;    // where the replay keeps the block's address; reused once the block is freed
  uint16_t stream;  // index into Trace::streams
  bool is_malloc;
};

struct Trace {
  std::string file;
  std::string name;  // the file's, without folder and .trace, .txt or .gz
  std::vector<TraceEvent> events;
  /// The trace's own number of the block of each event.
  std::vector<uint64_t> ids;
  /// Frees of the blocks that are live at the end, which are no events of the trace.
  std::vector<TraceEvent> leftovers;
  /// The trace's own number of each stream.
  std::vector<uint64_t> streams;
  uint32_t slot_count = 0;
  /// How long the recorded program ran, in seconds; 0: not known.
  double duration = 0;
  /// Peak of live bytes, with each block rounded up to 512 as in the pool.
  uint64_t peak_live_bytes = 0;
  /// False if the last line does not end, so the trace may have been cut.
  bool is_ended = true;
};

/// Reads a trace from its text. Throws InputError "file:line: what is wrong".
Trace parse_trace(std::string_view text, const std::string& file);

/// Reads a trace file, plain or gzip; "-" is standard input. The data kept is bounded, whatever the file
/// unpacks to: lines of at most 4,096 characters, and at most 2^26 of them.
Trace load_trace(const std::string& file);

}  // namespace gpupool::cli
