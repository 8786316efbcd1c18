// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/event_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "cli/base/lines.hpp"
#include "cli/base/unpacker.hpp"
#include "wire/recording.hpp"

namespace gpupool::cli {
namespace {

/// No processor has more addresses.
constexpr uint64_t kAddressEnd = uint64_t{1} << 57;
/// A hundred years.
constexpr double kMostNs = 3.2e18;

}  // namespace

InputError refuse_at(const std::string& file, size_t at, std::string_view why) {
  return InputError(fmt::format("{}: at byte {}: {}", file_label(file), at, why));
}

void EventReader::begin_chunk(size_t begin, size_t end, uint64_t first, RecordedThread thread) {
  at_ = begin;
  end_ = end;
  time_ = first >> clock_.shift;
  last_ = {};
  unit_ = 0;
  const auto [found, is_new] =
      thread_places_.try_emplace(thread.number, static_cast<uint32_t>(made_.threads.size()));
  if (is_new) made_.threads.push_back(std::move(thread));
  last_.thread = found->second;
}

bool EventReader::next() {
  if (at_ >= end_ || bytes_[at_] == 0) return false;
  read_event();
  return true;
}

uint64_t EventReader::next_number() {
  uint64_t number = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at_ == end_) throw refuse(at_, "the chunk ends within an event");
    const auto byte = static_cast<uint8_t>(bytes_[at_++]);
    number |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return number;
  }
  throw refuse(at_, "a number has more than 64 bits");
}

uint64_t EventReader::next_difference() {
  return wire::recording::unfold_sign(next_number());
}

std::string EventReader::next_text() {
  const uint64_t length = next_number();
  if (length > end_ - at_)
    throw refuse(at_, fmt::format("a text of {} bytes is longer than its chunk", length));
  const std::string text = bytes_.substr(at_, length);
  at_ += length;
  return text;
}

void EventReader::read_event() {
  const size_t begin = at_;
  const auto token = static_cast<uint8_t>(bytes_[at_++]);
  const auto kind = static_cast<Kind>(token & wire::recording::kKindBits);
  time_ += next_number();
  if (time_ >> 60 != 0) throw refuse(begin, "the time of an event cannot be");
  if ((token & wire::recording::kSamePool) == 0) last_.pool = next_number();
  if ((token & wire::recording::kSameStream) == 0) last_.stream = next_number();
  if ((token & wire::recording::kSameTag) == 0)
    last_.tag = static_cast<uint16_t>(small(next_number(), 1U << 16, "tag"));
  last_.stack = (token & wire::recording::kHasStack) != 0
                    ? static_cast<uint32_t>(small(next_number(), 1U << 20, "stack"))
                    : 0;
  if (kind == Kind::end || kind > Kind::pool_name)
    throw refuse(begin, fmt::format("an event of unknown kind {}", token & wire::recording::kKindBits));
  if (kind >= Kind::tag_name) return read_name(kind);
  last_.kind = kind;
  last_.ns = nanoseconds(begin);
  last_.bytes = last_.address = 0;
  if (last_.kind == Kind::mark) {
    (void)next_number();
    last_.bytes = made_.marks.size();
    made_.marks.push_back(next_text());
  } else {
    unit_ += next_difference();
    last_.address = unit_ * wire::recording::kAddressUnit;
    if (wire::recording::has_bytes(kind)) last_.bytes = next_number();
    // A failed request may have had any size.
    const uint64_t bytes = last_.kind == Kind::failed ? 0 : last_.bytes;
    if (last_.address >= kAddressEnd || bytes >= kAddressEnd) {
      throw refuse(begin, fmt::format("{} bytes at {:#x} cannot be", bytes, last_.address));
    }
  }
  last_.place = static_cast<uint32_t>(made_.events.size());
  made_.events.push_back(last_);
}

uint64_t EventReader::small(uint64_t number, uint64_t end, std::string_view what) const {
  if (number >= end) throw refuse(at_, fmt::format("there is no {} {}", what, number));
  return number;
}

uint64_t EventReader::nanoseconds(size_t begin) const {
  // Shifted, or of a slow clock, 2^60 ticks may be more nanoseconds than a number of 64 bits holds.
  const double ticks =
      std::ldexp(static_cast<double>(time_ - std::min(time_, clock_.start)), static_cast<int>(clock_.shift));
  // In this order, so that ticks of a nanosecond stay as they are.
  const double ns = ticks * (1e9 / static_cast<double>(clock_.rate));
  if (ns > kMostNs) throw refuse(begin, "the time of an event cannot be");
  return static_cast<uint64_t>(ns);
}

void EventReader::read_name(Kind kind) {
  const uint64_t number = next_number();
  const std::string text = next_text();
  if (kind == Kind::tag_name) made_.tags[static_cast<uint32_t>(small(number, 1U << 16, "tag"))] = text;
  if (kind == Kind::stack_text) made_.stacks[static_cast<uint32_t>(small(number, 1U << 20, "stack"))] = text;
  if (kind != Kind::pool_name) return;
  std::vector<std::string_view> lines = lines_of(text);
  lines.resize(4);
  const auto number_of = [](std::string_view line) {
    return std::strtoull(std::string(line).c_str(), nullptr, 10);
  };
  made_.pools[number] = {std::string(lines[0]), std::string(lines[1]), number_of(lines[2]),
                         number_of(lines[3])};
}

}  // namespace gpupool::cli
