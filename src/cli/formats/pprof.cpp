// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/pprof.hpp"

#include <fmt/format.h>

#include <array>
#include <tuple>

#include "cli/base/gzip.hpp"
#include "cli/recording/frame.hpp"
#include "cli/recording/live.hpp"
#include "cli/recording/walk.hpp"

namespace gpupool::cli {
namespace {

/// A message of Protocol Buffers, field by field.
class Message {
 public:
  void number(uint32_t field, uint64_t value) {
    varint(uint64_t{field} << 3);
    varint(value);
  }
  void bytes(uint32_t field, const std::string& value) {
    varint(uint64_t{field} << 3 | 2);
    varint(value.size());
    text_ += value;
  }
  void message(uint32_t field, const Message& value) { bytes(field, value.text_); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

/// What one group of mallocs comes to.
struct Sums {
  uint64_t allocated_objects = 0;
  uint64_t allocated_bytes = 0;
  uint64_t live_objects = 0;
  uint64_t live_bytes = 0;
  uint64_t peak_bytes = 0;
  uint64_t wasted_bytes = 0;  // allocated, and not asked for
};

/// Stack, tag, stream, thread, size of the block.
using Group = std::tuple<uint32_t, uint32_t, uint64_t, uint32_t, uint64_t>;

Group group_of(const Happened& made) {
  return {made.stack, made.tag, made.stream, made.thread, rounded(made.bytes)};
}

std::map<Group, Sums> add_up(const Recording& recording, uint64_t pool) {
  std::map<Group, Sums> sums;
  LiveBlocks blocks;
  const size_t peak = events_until_peak(recording, pool);
  const auto note_peak = [&] {
    for (const auto& [key, block] : blocks.all())
      sums[group_of(*block.made)].peak_bytes += rounded(block.made->bytes);
  };
  for (size_t i = 0; i < recording.events.size(); ++i) {
    if (i == peak) note_peak();
    if (recording.events[i].pool != pool) continue;
    blocks.take(
        recording.events[i],
        [&](const LiveBlock& block) {
          Sums& sum = sums[group_of(*block.made)];
          ++sum.allocated_objects;
          sum.allocated_bytes += rounded(block.made->bytes);
          sum.wasted_bytes += rounded(block.made->bytes) - block.made->bytes;
        },
        [](const LiveBlock&, const Happened&) {});
  }
  if (peak == recording.events.size()) note_peak();
  for (const auto& [key, block] : blocks.all()) {
    Sums& sum = sums[group_of(*block.made)];
    ++sum.live_objects;
    sum.live_bytes += rounded(block.made->bytes);
  }
  return sums;
}

/// Field numbers are those of profile.proto.
class Profile {
 public:
  explicit Profile(const Recording& recording) : recording_(recording) { (void)string(""); }

  std::string write(const std::map<Group, Sums>& sums) {
    static constexpr std::array<std::array<const char*, 2>, 6> kTypes = {{{"alloc_objects", "count"},
                                                                          {"alloc_space", "bytes"},
                                                                          {"inuse_objects", "count"},
                                                                          {"inuse_space", "bytes"},
                                                                          {"peak_space", "bytes"},
                                                                          {"waste_space", "bytes"}}};
    for (const auto& type : kTypes) whole_.message(1, value_type(type[0], type[1]));
    for (const auto& [group, sum] : sums) add(group, sum);
    for (const Message& location : locations_) whole_.message(4, location);
    for (const Message& function : functions_) whole_.message(5, function);
    whole_.number(9, recording_.start_realtime_ns);
    if (!recording_.events.empty()) whole_.number(10, recording_.events.back().ns);
    whole_.message(11, value_type("space", "bytes"));
    whole_.number(12, 1);
    whole_.number(14, string("inuse_space"));
    for (const std::string& text : strings_) whole_.bytes(6, text);
    return whole_.text();
  }

 private:
  uint64_t string(const std::string& text) {
    const auto [found, is_new] = string_numbers_.try_emplace(text, strings_.size());
    if (is_new) strings_.push_back(text);
    return found->second;
  }

  Message value_type(const char* type, const char* unit) {
    Message message;
    message.number(1, string(type));
    message.number(2, string(unit));
    return message;
  }

  uint64_t location(const std::string& text) {
    const auto [found, is_new] = location_numbers_.try_emplace(text, locations_.size() + 1);
    if (!is_new) return found->second;
    const Frame frame = split_frame(text);
    const auto [function, is_new_function] =
        function_numbers_.try_emplace({frame.function, frame.file}, functions_.size() + 1);
    if (is_new_function) {
      Message message;
      message.number(1, function->second);
      message.number(2, string(frame.function));
      message.number(4, string(frame.file));
      functions_.push_back(message);
    }
    Message line;
    line.number(1, function->second);
    line.number(2, frame.line);
    Message message;
    message.number(1, found->second);
    message.message(4, line);
    locations_.push_back(message);
    return found->second;
  }

  void label(Message& sample, const char* key, const std::string& value) {
    Message message;
    message.number(1, string(key));
    message.number(2, string(value));
    sample.message(3, message);
  }

  void add(const Group& group, const Sums& sum) {
    const auto& [stack, tag, stream, thread, bytes] = group;
    Message locations;
    for (const std::string& text : frames_of(recording_, stack)) locations.varint(location(text));
    Message values;
    for (const uint64_t value : {sum.allocated_objects, sum.allocated_bytes, sum.live_objects, sum.live_bytes,
                                 sum.peak_bytes, sum.wasted_bytes}) {
      values.varint(value);
    }
    Message sample;
    sample.bytes(1, locations.text());
    sample.bytes(2, values.text());
    if (tag != 0) label(sample, "tag", recording_.tag(tag));
    label(sample, "stream", std::to_string(stream));
    label(sample, "thread", one_line(recording_.threads[thread].name));
    Message size;
    size.number(1, string("bytes"));
    size.number(3, bytes);
    size.number(4, string("bytes"));
    sample.message(3, size);
    whole_.message(2, sample);
  }

  const Recording& recording_;
  Message whole_;
  std::vector<std::string> strings_;
  std::map<std::string, uint64_t> string_numbers_;
  std::map<std::string, uint64_t> location_numbers_;
  std::map<std::pair<std::string, std::string>, uint64_t> function_numbers_;
  std::vector<Message> locations_;
  std::vector<Message> functions_;
};

}  // namespace

std::string pprof_of(const Recording& recording, uint64_t pool) {
  return pack_gzip(Profile(recording).write(add_up(recording, pool)));
}

}  // namespace gpupool::cli
