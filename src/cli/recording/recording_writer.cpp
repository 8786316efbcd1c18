// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/recording_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "cli/base/bytes.hpp"
#include "wire/recording.hpp"

namespace gpupool::cli {
namespace {

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
      name(Kind::pool_name, number,
           fmt::format("{}\n{}\n{}\n{}", pool.device, pool.name, pool.total_bytes, pool.limit_bytes));
    }
    for (const auto& [number, text] : recording_.tags) name(Kind::tag_name, number, text);
    for (const auto& [number, text] : recording_.stacks) name(Kind::stack_text, number, text);
    for (const Happened& event : recording_.events) write_event(event);
    end_chunk();
    return std::move(file_);
  }

 private:
  void write_header() {
    wire::recording::Header head{};
    wire::recording::kMagic.copy(head.magic, sizeof head.magic);
    head.version = wire::recording::kVersion;
    head.header_bytes = wire::recording::kHeaderBytes;
    head.chunk_bytes = kLargestChunk;
    head.flags = wire::recording::kEnded | wire::recording::kPacked;
    head.pid = recording_.pid;
    head.ticks_per_second = 1'000'000'000;
    head.start_realtime_ns = recording_.start_realtime_ns;
    head.end_ticks = recording_.events.empty() ? 0 : recording_.events.back().ns;
    head.lost = recording_.lost;
    put_text(head.library, recording_.library);
    recording_.command.copy(head.command, sizeof head.command - 2);
    file_.assign(head.header_bytes, '\0');
    put_value(file_, 0, head);
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
    wire::recording::ChunkHeader head{wire::recording::kChunkMagic,         1, first_ns_,
                                      static_cast<uint32_t>(chunk_.size()), 0, {}};
    if (!recording_.threads.empty()) put_text(head.name, recording_.threads.front().name);
    const size_t at = file_.size();
    file_.resize(at + sizeof head);
    put_value(file_, at, head);
    file_ += chunk_;
    chunk_.clear();
  }

  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) chunk_ += static_cast<char>(value | 0x80);
    chunk_ += static_cast<char>(value);
  }

  /// Pool, stream and tag follow each token, since no token says that they are unchanged.
  void name(Kind kind, uint64_t named, std::string_view text) {
    begin_event(static_cast<uint8_t>(kind), 0);
    for (int i = 0; i < 3; ++i) number(0);
    number(named);
    number(text.size());
    chunk_ += text;
  }

  void write_event(const Happened& event) {
    const uint8_t flag = event.stack != 0 ? wire::recording::kHasStack : 0;
    begin_event(static_cast<uint8_t>(static_cast<uint8_t>(event.kind) | flag), event.ns);
    number(event.pool);
    number(event.stream);
    number(event.tag);
    if (event.stack != 0) number(event.stack);
    const uint64_t unit = event.address / wire::recording::kAddressUnit;
    number(wire::recording::fold_sign(unit - unit_));
    unit_ = unit;
    if (wire::recording::has_bytes(event.kind)) number(event.bytes);
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
