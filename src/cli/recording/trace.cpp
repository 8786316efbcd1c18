// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

#include "cli/base/library.hpp"
#include "cli/base/lines.hpp"
#include "cli/base/text_file.hpp"
#include "cli/recording/recording.hpp"

namespace gpupool::cli {
namespace {

constexpr uint64_t kBlockAlignment = 512;

/// Each stream of a trace becomes a real stream; a trace with more is surely broken.
constexpr size_t kMaxStreams = 4096;

/// Bounds the data kept, so that a small packed file cannot fill the host's memory: 24 bytes per event.
constexpr uint64_t kMaxLines = uint64_t{1} << 26;

/// Longest recorded run: 30 days.
constexpr double kMaxSeconds = 2'592'000;

constexpr std::string_view kSpaces = " \t";

/// The content of a line for an error message: short, without characters that upset a terminal.
std::string quote(std::string_view text) {
  constexpr size_t kMaxShown = 40;
  std::string shown;
  for (const char c : text.substr(0, kMaxShown)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 0x20 || byte >= 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return fmt::format("'{}{}'", shown, text.size() > kMaxShown ? "..." : "");
}

/// Builds a trace from text in pieces, cut anywhere.
class Parser {
 public:
  explicit Parser(std::string label) : lines_(std::move(label)) {}

  void feed(std::string_view text) {
    lines_.feed(text, [&](std::string_view line) { parse_line(line); });
  }

  Trace finish() {
    trace_.is_ended = lines_.finish([&](std::string_view line) { parse_line(line); });
    if (lines_.number() == 0) throw InputError(lines_.label() + ": at byte 0: the file is empty");
    if (trace_.peak_live_bytes == 0) throw refuse("the trace ends and nothing was allocated");
    list_leftovers();
    return std::move(trace_);
  }

  InputError refuse(std::string_view why) const { return lines_.refuse(why); }

 private:
  void parse_line(std::string_view line) {
    if (lines_.number() > kMaxLines) throw refuse(fmt::format("a trace has at most {} lines", kMaxLines));
    line_text_ = line;
    rest_ = line;
    const std::string_view kind = next_field();
    if (kind == "#") read_comment();
    if (kind.empty() || kind.front() == '#') return;
    if (kind == "a") {
      const uint64_t id = next_number("block ID");
      const uint64_t bytes = next_number("size in bytes");
      const uint64_t stream = next_number("stream number");
      expect_end();
      add_malloc(id, bytes, stream);
    } else if (kind == "f") {
      const uint64_t id = next_number("block ID");
      expect_end();
      add_free(id);
    } else {
      throw refuse(fmt::format(
          "unknown kind of line {}: a line is 'a ID BYTES STREAM', 'f ID' or '# comment'", quote(kind)));
    }
  }

  void read_comment() {
    if (next_field() != "duration") return;
    const std::string_view field = next_field();
    double seconds = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), seconds);
    if (error != std::errc() || end != field.data() + field.size() ||
        !(seconds > 0 && seconds <= kMaxSeconds)) {
      throw refuse(
          fmt::format("the duration is no number of seconds up to {}: {}", kMaxSeconds, quote(field)));
    }
    trace_.duration = seconds;
  }

  std::string_view next_field() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kSpaces), rest_.size()));
    const std::string_view field = rest_.substr(0, rest_.find_first_of(kSpaces));
    rest_.remove_prefix(field.size());
    return field;
  }

  uint64_t next_number(std::string_view meaning) {
    const std::string_view field = next_field();
    if (field.empty()) throw refuse(fmt::format("the {} is missing in {}", meaning, quote(line_text_)));
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
    if (end != field.data() + field.size() || error == std::errc::invalid_argument) {
      throw refuse(fmt::format("the {} is not a number: {}", meaning, quote(field)));
    }
    if (error != std::errc())
      throw refuse(fmt::format("the {} does not fit in 64 bits: {}", meaning, quote(field)));
    return number;
  }

  void expect_end() {
    const std::string_view field = next_field();
    if (!field.empty()) throw refuse(fmt::format("there is more than there should be: {}", quote(field)));
  }

  void add_malloc(uint64_t id, uint64_t bytes, uint64_t stream) {
    constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
    const uint64_t tail = bytes % kBlockAlignment;
    const uint64_t padding = tail == 0 ? 0 : kBlockAlignment - tail;
    if (padding > kMax - bytes || live_bytes_ > kMax - bytes - padding) {
      throw refuse(
          fmt::format("block {} of {} bytes makes more bytes live than 64 bits can count", id, bytes));
    }
    if (live_.contains(id)) {
      throw refuse(fmt::format("block {} is allocated again before it is freed", id));
    }
    const TraceEvent event{bytes, take_slot(), stream_index(stream), true};
    live_.emplace(id, event);
    live_bytes_ += bytes + padding;
    trace_.peak_live_bytes = std::max(trace_.peak_live_bytes, live_bytes_);
    trace_.events.push_back(event);
    trace_.ids.push_back(id);
  }

  void add_free(uint64_t id) {
    const auto found = live_.find(id);
    if (found == live_.end()) throw refuse(fmt::format("block {} is freed and is not live", id));
    TraceEvent event = found->second;
    event.is_malloc = false;
    live_.erase(found);
    live_bytes_ -= (event.bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
    free_slots_.push_back(event.slot);
    trace_.events.push_back(event);
    trace_.ids.push_back(id);
  }

  /// The slot freed last, so that the replay's own table stays in the processor's cache.
  uint32_t take_slot() {
    if (free_slots_.empty()) return trace_.slot_count++;
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  uint16_t stream_index(uint64_t stream) {
    const auto [found, is_new] = streams_.try_emplace(stream, static_cast<uint16_t>(trace_.streams.size()));
    if (is_new) {
      if (trace_.streams.size() == kMaxStreams) {
        throw refuse(fmt::format("more than {} streams are in use", kMaxStreams));
      }
      trace_.streams.push_back(stream);
    }
    return found->second;
  }

  void list_leftovers() {
    for (const auto& [id, event] : live_) {
      trace_.leftovers.push_back(event);
      trace_.leftovers.back().is_malloc = false;
    }
    // The map's order differs between machines; a replay should not.
    std::sort(trace_.leftovers.begin(), trace_.leftovers.end(),
              [](const TraceEvent& a, const TraceEvent& b) { return a.slot < b.slot; });
  }

  FileLines lines_;
  std::string_view line_text_;
  std::string_view rest_;
  Trace trace_;
  uint64_t live_bytes_ = 0;
  std::unordered_map<uint64_t, TraceEvent> live_;
  std::vector<uint32_t> free_slots_;
  std::unordered_map<uint64_t, uint16_t> streams_;
};

std::string trace_name(std::string_view file) {
  if (file == "-") return "stdin";
  std::string_view name = file.substr(file.rfind('/') + 1);
  for (const std::string_view ending : {".gz", ".txt", ".trace"}) {
    if (name.size() > ending.size() && name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  return std::string(name);
}

Trace name_trace(Trace trace, const std::string& file) {
  trace.file = file;
  trace.name = trace_name(file);
  return trace;
}

}  // namespace

Trace parse_trace(std::string_view text, const std::string& file) {
  Parser parser(file_label(file));
  parser.feed(text);
  return name_trace(parser.finish(), file);
}

Trace load_trace(const std::string& file) {
  Parser parser(file_label(file));
  try {
    bool is_first = true;
    read_text(file, [&](std::string_view text) {
      if (std::exchange(is_first, false)) refuse_recording(file_label(file), text);
      parser.feed(text);
    });
    return name_trace(parser.finish(), file);
  } catch (const std::bad_alloc&) {
    throw parser.refuse("the trace does not fit in this machine's memory");
  }
}

}  // namespace gpupool::cli
