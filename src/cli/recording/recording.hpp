// SPDX-License-Identifier: Apache-2.0
// Reads recordings of the library: see docs/watch.md for the format.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "wire/recording.hpp"

namespace gpupool::cli {

using Kind = wire::recording::EventKind;

/// One event of many, in the order of time. Streams, tags, stacks and pools have the recording's own numbers.
struct Happened {
  uint64_t ns;  // since the recording began
  uint64_t stream;
  uint64_t address;
  uint64_t bytes;  // as requested; of a mark: its place in Recording::marks
  uint64_t pool;
  uint32_t thread;  // place in Recording::threads
  uint32_t stack;
  uint16_t tag;
  Kind kind;
  uint32_t place = 0;  // in the file: the order of what happened at one time
};

struct RecordedPool {
  std::string device;  // "cuda:0"
  std::string name;    // "NVIDIA H200"
  uint64_t total_bytes = 0;
  uint64_t limit_bytes = 0;  // 0: none
};

struct RecordedThread {
  uint32_t number;
  std::string name;
};

/// How the process of a recording ended, as far as whoever packed the recording knew.
struct ProcessEnd {
  enum class How : uint32_t {
    unknown = 0,
    exited = 1,
    signal = 2,
    exec = 3,   // it became another program, which has a recording of its own
    still = 4,  // it still ran
  };
  How how = How::unknown;
  uint32_t number = 0;  // the exit status, or the signal's number
};

struct Recording {
  std::string file;
  std::string command;  // words with spaces between them
  std::string library;  // version
  uint32_t pid = 0;
  uint64_t start_realtime_ns = 0;
  uint64_t lost = 0;      // events
  bool is_cut = false;    // damaged parts are left out
  bool is_ended = false;  // by the library; false: the process did not call exit(), or still runs
  ProcessEnd end;
  std::vector<Happened> events;
  std::vector<std::string> marks;
  std::vector<RecordedThread> threads;
  std::map<uint64_t, RecordedPool> pools;
  std::map<uint32_t, std::string> tags;
  std::map<uint32_t, std::string> stacks;  // a line for each frame, innermost first

  std::string tag(uint32_t number) const;
  /// The first line of a stack; "(no stack)" if there is none.
  std::string site(uint32_t stack) const;
  /// "the process was killed by SIGKILL"; "" if it ended as it should, or only the recording did.
  std::string how_it_ended() const;
  /// "9 events were lost, as the disk was full: ..."; "" if all that happened is there.
  std::string what_is_missing() const;
};

/// "SIGKILL"; "signal 60" of one without a usual name.
std::string signal_name(uint32_t number);

/// The first `longest` bytes of a text of the recorded program, which may hold any bytes, as `harmless` shows
/// them.
std::string one_line(std::string_view text, size_t longest = 1000);

/// What had to be omitted from a damaged file.
struct Damage {
  uint64_t parts = 0;  // of the file that lost something
  uint64_t bytes = 0;  // that they lost; not those of a file's end that is not there
  std::string first;   // what was wrong first
};

/// Reads a recording, packed or not. Throws InputError "file: at byte N: what is wrong". With `damage`, an
/// error in a chunk loses only the rest of that chunk, one in the packing its gzip member, and is reported
/// there. A file of one member is read as far as it can be unpacked.
Recording read_recording(const std::string& file, Damage* damage = nullptr);

/// Throws InputError if what should be something else, called `label`, begins as a recording does.
void refuse_recording(const std::string& label, std::string_view begin);

/// Writes the good parts of a recording to a packed file, which must not exist, with how its process ended
/// where that is known now. Throws InputError.
void pack_recording(const std::string& file, const std::string& to, Damage& damage, ProcessEnd end = {});

/// Says on standard error what a recording that was just packed has, and what it lost. False if it lost all
/// of it.
bool report_packed(const std::string& file, const Damage& damage);

}  // namespace gpupool::cli
