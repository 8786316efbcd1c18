// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/recording_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "cli/recording/file_layout.hpp"

namespace gpupool::cli {
namespace {

constexpr size_t kWrittenHeader = 4096;
/// A chunk ends once it has this much, so that with one more event it is still smaller than the header
/// allows.
constexpr size_t kWrittenChunk = size_t{2} << 20;
constexpr uint32_t kLargestChunk = 4U << 20;

class RecordingWriter {
 public:
  explicit RecordingWriter(const Recording& recording) : recording_(recording) {}

  std::string write() {
    write_header();
    for (const auto& [number, pool] : recording_.pools) {
      name(kPoolName, number,
           fmt::format("{}\n{}\n{}\n{}", pool.device, pool.name, pool.total_bytes, pool.limit_bytes));
    }
    for (const auto& [number, text] : recording_.tags) name(kTagName, number, text);
    for (const auto& [number, text] : recording_.stacks) name(kStackText, number, text);
    for (const Happened& event : recording_.events) write_event(event);
    end_chunk();
    return std::move(file_);
  }

 private:
  static void put_text(std::string& text, size_t at, std::string_view value, size_t room) {
    std::memcpy(text.data() + at, value.data(), std::min(value.size(), room - 1));
  }

  void write_header() {
    constexpr uint64_t kNanoseconds = 1'000'000'000;
    file_.assign(kWrittenHeader, '\0');
    put_text(file_, 0, kMagic, kMagic.size() + 1);
    put_number(file_, kAtVersion, kVersion);
    put_number(file_, kAtHeaderBytes, uint32_t{kWrittenHeader});
    put_number(file_, kAtChunkBytes, kLargestChunk);
    put_number(file_, kAtFlags, kFlagEnded | kFlagPacked);
    put_number(file_, kAtPid, recording_.pid);
    put_number(file_, kAtRate, kNanoseconds);
    put_number(file_, kAtRealtime, recording_.start_realtime_ns);
    put_number(file_, kAtEndTicks, recording_.events.empty() ? uint64_t{0} : recording_.events.back().ns);
    put_number(file_, kAtLost, recording_.lost);
    put_text(file_, kAtLibrary, recording_.library, kLibraryRoom);
    put_text(file_, kAtCommand, recording_.command, kCommandRoom - 1);
  }

  // ---- chunks

  void begin_event(uint8_t token, uint64_t ns) {
    if (chunk_.size() >= kWrittenChunk) end_chunk();
    if (chunk_.empty()) {
      first_ns_ = ns_ = std::max(ns, ns_);
      unit_ = 0;
    }
    chunk_ += static_cast<char>(token);
    number(std::max(ns, ns_) - ns_);
    ns_ = std::max(ns, ns_);
  }

  void end_chunk() {
    if (chunk_.empty()) return;
    std::string head(kChunkHeader, '\0');
    put_text(head, 0, kChunkBegin, kChunkBegin.size() + 1);
    put_number(head, kAtThread, uint32_t{1});
    put_number(head, kAtFirst, first_ns_);
    put_number(head, kAtUsed, static_cast<uint32_t>(chunk_.size()));
    put_text(head, kAtName, recording_.threads.empty() ? "" : recording_.threads.front().name, kNameRoom);
    file_ += head;
    file_ += chunk_;
    chunk_.clear();
  }

  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) chunk_ += static_cast<char>(value | 0x80);
    chunk_ += static_cast<char>(value);
  }

  /// Pool, stream and tag follow each token, since no token says that they are unchanged.
  void name(uint8_t kind, uint64_t named, std::string_view text) {
    begin_event(kind, 0);
    for (int i = 0; i < 3; ++i) number(0);
    number(named);
    number(text.size());
    chunk_ += text;
  }

  void write_event(const Happened& event) {
    constexpr uint8_t kHasStack = 0x40;
    constexpr uint64_t kAddressUnit = 512;
    begin_event(static_cast<uint8_t>(static_cast<uint8_t>(event.kind) | (event.stack != 0 ? kHasStack : 0)),
                event.ns);
    number(event.pool);
    number(event.stream);
    number(event.tag);
    if (event.stack != 0) number(event.stack);
    const uint64_t unit = event.address / kAddressUnit;
    const uint64_t difference = unit - unit_;
    number(difference << 1 ^ (~(difference >> 63) + 1));
    unit_ = unit;
    if (event.kind != Kind::free && event.kind != Kind::use) number(event.bytes);
  }

  const Recording& recording_;
  std::string file_;
  std::string chunk_;  // the events of the chunk that is being written
  uint64_t first_ns_ = 0;
  uint64_t ns_ = 0;
  uint64_t unit_ = 0;
};

}  // namespace

std::string bytes_of_recording(const Recording& recording) {
  return RecordingWriter(recording).write();
}

}  // namespace gpupool::cli
