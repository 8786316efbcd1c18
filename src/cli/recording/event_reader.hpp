// SPDX-License-Identifier: Apache-2.0
// The events of a recording's chunks: docs/watch.md has how they are written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cli/base/library.hpp"
#include "cli/recording/recording.hpp"

namespace gpupool::cli {

InputError refuse_at(const std::string& file, size_t at, std::string_view why);

/// Adds what chunks have to a recording. Throws InputError.
class EventReader {
 public:
  struct Clock {
    uint32_t shift = 0;
    uint64_t rate = 1;   // ticks a second
    uint64_t start = 0;  // ticks, shifted
  };

  /// All of them outlive it.
  EventReader(const std::string& file, const std::string& bytes, Recording& made)
      : file_(file), bytes_(bytes), made_(made) {}

  void set_clock(Clock clock) { clock_ = clock; }
  /// `first`: when its first event was, in ticks.
  void begin_chunk(size_t begin, size_t end, uint64_t first, RecordedThread thread);
  /// Reads one; false: the chunk has no more.
  bool next();
  /// Behind the last one that was read.
  size_t at() const noexcept { return at_; }

 private:
  InputError refuse(size_t at, std::string_view why) const { return refuse_at(file_, at, why); }
  uint64_t next_number();
  uint64_t next_difference();
  std::string next_text();
  void read_event();
  void read_name(Kind kind);
  uint64_t small(uint64_t number, uint64_t end, std::string_view what) const;
  uint64_t nanoseconds(size_t begin) const;

  const std::string& file_;
  const std::string& bytes_;
  Recording& made_;
  Clock clock_;
  std::unordered_map<uint32_t, uint32_t> thread_places_;
  // Of the chunk that is being read.
  size_t at_ = 0;
  size_t end_ = 0;
  uint64_t time_ = 0;
  uint64_t unit_ = 0;
  Happened last_{};
};

}  // namespace gpupool::cli
