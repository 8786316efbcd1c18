// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <unordered_map>
#include <utility>

#include "cli/base/bytes.hpp"
#include "cli/base/gzip.hpp"
#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/salvage_file.hpp"
#include "cli/base/text_file.hpp"
#include "cli/recording/event_reader.hpp"
#include "cli/recording/packing.hpp"
#include "wire/recording.hpp"

namespace gpupool::cli {
namespace {

using wire::recording::ChunkHeader;
using wire::recording::Header;
using wire::recording::kChunkBegin;
using wire::recording::kLeastHeader;
using wire::recording::kMagic;

constexpr const char* kNoHeader = "the header of the recording is missing";
struct Chunk {
  size_t at;    // of its header
  size_t used;  // bytes behind that
};

/// A recording's bytes, and its events.
class Reader {
 public:
  Reader(std::string file, Damage* damage) : file_(std::move(file)), damage_(damage) {
    constexpr TextFile kHow{.most_growth = kMostGrowth, .is_binary = true};
    const auto fits = [&](uint64_t bytes) {
      if (bytes > wire::recording::kMostBytes) throw refuse(bytes, "the recording is larger than 4 GiB");
    };
    const auto keep = [&](std::string_view piece) {
      fits(bytes_.size() + piece.size());
      bytes_ += piece;
    };
    if (damage_ != nullptr) {
      use_parts(salvage_file(file_, {kMagic, kChunkBegin}, fits, kHow));
    } else {
      try {
        read_text(file_, keep, kHow);
      } catch (const DamagedFile& error) {
        throw with_help(error);
      }
    }
    read_header();
    part_ends_.push_back(bytes_.size());
  }

  Recording read() {
    Progress progress;
    progress.begin("reading events", bytes_.size());
    size_t at = header_.header_bytes;
    for (const size_t end : part_ends_)
      for (part_end_ = end; at < end; progress.set(at)) at = read_chunk(at);
    check_end();
    std::sort(made_.events.begin(), made_.events.end(), [](const Happened& a, const Happened& b) {
      return a.ns != b.ns ? a.ns < b.ns : a.place < b.place;
    });
    join_equal_stacks();
    return std::move(made_);
  }

  /// The good parts, after read().
  std::string good_chunks(ProcessEnd end) const {
    std::string text = bytes_.substr(0, header_.header_bytes);
    if (end.how != ProcessEnd::How::unknown && text.size() >= sizeof(Header)) {
      put_value(text, offsetof(Header, end), end.how);
      put_value(text, offsetof(Header, end_number), end.number);
    }
    const bool is_cut = damage_ != nullptr && damage_->parts != 0;
    put_value(text, offsetof(Header, flags),
              header_.flags | wire::recording::kPacked | (is_cut ? wire::recording::kCut : 0));
    for (const Chunk& chunk : good_) {
      if (chunk.used == 0) continue;
      auto head = value_in<ChunkHeader>(bytes_, chunk.at);
      head.used = static_cast<uint32_t>(chunk.used);
      head.checksum = 0;
      const size_t at = text.size();
      text.append(bytes_, chunk.at, sizeof head + chunk.used);
      put_value(text, at, head);
    }
    return text;
  }

 private:
  InputError refuse(size_t at, std::string_view why) const { return refuse_at(file_, at, why); }

  static InputError with_help(const InputError& error) {
    return InputError(fmt::format("{}: 'gpupool salvage' saves what is there", error.what()));
  }

  /// A file that has lost its header has a copy of it at the end.
  void use_parts(Salvaged saved) {
    const bool has_gap = !saved.gaps.empty() && saved.gaps.front().at == 0;
    const bool is_lost = !saved.text.starts_with(kMagic) && (has_gap || saved.text.starts_with(kChunkBegin));
    if (is_lost && !has_gap) saved.gaps.insert(saved.gaps.begin(), {0, 0, refuse(0, kNoHeader).what()});
    const std::string header(is_lost ? header_copy(saved.text) : "");
    if (is_lost && header.empty())
      throw InputError(saved.gaps.front().what + ", and at the end of the file is no copy of the header");
    bytes_ = std::move(saved.text);
    bytes_.insert(0, header);
    part_end_ = bytes_.size();
    for (const Gap& gap : saved.gaps) {
      part_ends_.push_back(header.size() + gap.at);
      note_damage(gap.what, gap.lost, part_ends_.back() == part_end_);
    }
  }

  void check_end() {
    const uint64_t begun = is_packed_ ? 0 : header_.chunks;
    const uint64_t missing = begun - std::min(chunks_, begun);
    std::string what;
    if ((header_.flags & wire::recording::kCopy) != 0 && header_copy(bytes_).empty())
      what = "the end of the file is missing";
    if (missing != 0)
      what = fmt::format("{} of its {} chunks {} missing", missing, begun, missing == 1 ? "is" : "are");
    if (what.empty()) return;
    const InputError error = refuse(bytes_.size(), what);
    if (damage_ == nullptr) throw with_help(error);
    note_damage(error.what(), 0,
                missing == 0 || (bytes_.size() - header_.header_bytes) / header_.chunk_bytes < begun);
  }

  void read_header() {
    if (bytes_.starts_with(kChunkBegin)) throw with_help(refuse(0, kNoHeader));
    if (bytes_.size() < kLeastHeader) {
      throw refuse(bytes_.size(),
                   fmt::format("the file ends within the {} bytes of its header", kLeastHeader));
    }
    if (!bytes_.starts_with(kMagic)) throw refuse(0, "this is no recording of gpupool");
    std::memcpy(&header_, bytes_.data(), kLeastHeader);
    if (header_.version != wire::recording::kVersion) {
      throw refuse(offsetof(Header, version),
                   fmt::format("the recording is of version {}, and this command reads version {}",
                               header_.version, wire::recording::kVersion));
    }
    if (header_.header_bytes < kLeastHeader || header_.header_bytes > bytes_.size()) {
      throw refuse(offsetof(Header, header_bytes),
                   fmt::format("a header of {} bytes cannot be", header_.header_bytes));
    }
    if (header_.chunk_bytes <= sizeof(ChunkHeader) || header_.chunk_bytes > (size_t{1} << 30)) {
      throw refuse(offsetof(Header, chunk_bytes),
                   fmt::format("chunks of {} bytes cannot be", header_.chunk_bytes));
    }
    const uint32_t shift = header_.tick_shift;
    if (shift > 32) throw refuse(offsetof(Header, tick_shift), fmt::format("a shift by {} cannot be", shift));
    if (header_.ticks_per_second == 0)
      throw refuse(offsetof(Header, ticks_per_second), "a clock without ticks cannot be");
    std::memcpy(&header_, bytes_.data(), std::min<size_t>(header_.header_bytes, sizeof header_));
    events_.set_clock({shift, header_.ticks_per_second, header_.start_ticks >> shift});
    made_.file = file_;
    made_.pid = header_.pid;
    made_.start_realtime_ns = header_.start_realtime_ns;
    made_.lost = header_.lost;
    made_.is_cut = (header_.flags & wire::recording::kCut) != 0;
    made_.is_ended = (header_.flags & wire::recording::kEnded) != 0;
    made_.end = {static_cast<ProcessEnd::How>(header_.end), header_.end_number};
    made_.library = text_of(header_.library);
    made_.command.assign(header_.command, sizeof header_.command);
    made_.command.resize(std::min(made_.command.find(std::string_view("\0\0", 2)), made_.command.size()));
    while (!made_.command.empty() && made_.command.back() == '\0') made_.command.pop_back();
    std::replace(made_.command.begin(), made_.command.end(), '\0', ' ');
    is_packed_ = (header_.flags & wire::recording::kPacked) != 0;
  }

  /// Returns where the next chunk begins.
  size_t read_chunk(size_t begin) {
    end_ = 0;
    try {
      if (part_end_ - begin < sizeof(ChunkHeader)) return end_of_chunks(begin);
      const auto head = value_in<ChunkHeader>(bytes_, begin);
      // Room taken but not yet used, or a thread stopped before it wrote anything.
      if (!is_packed_ && head.magic == 0) return next_place(begin);
      ++chunks_;
      if (head.magic != wire::recording::kChunkMagic) throw refuse(begin, "there should be a chunk");
      const size_t used = head.used;
      const size_t room = header_.chunk_bytes - sizeof head;
      if (used > room)
        throw refuse(begin + offsetof(ChunkHeader, used), fmt::format("a chunk of {} bytes cannot be", used));
      const size_t length = is_packed_ || used != 0 ? used : room;
      if (!is_packed_ && used != 0 && !is_as_written(begin, head))
        throw refuse(begin, "the chunk is not as it was written");
      end_ = begin + sizeof(ChunkHeader) + length;
      if (end_ > part_end_) {
        if (damage_ == nullptr) throw refuse(part_end_, "the file ends within a chunk");
        note_damage("the file ends within a chunk", 0, true);
        end_ = part_end_;
      }
      good_.push_back({begin, 0});
      events_.begin_chunk(begin + sizeof head, end_, head.first_ticks, {head.thread, text_of(head.name)});
      do good_.back().used = events_.at() - begin - sizeof(ChunkHeader);
      while (events_.next());
      return is_packed_ ? end_ : next_place(begin);
    } catch (const InputError& error) {
      if (damage_ == nullptr) throw with_help(error);
      const size_t next = next_chunk(begin);
      const size_t lost = end_ == 0 ? begin : good_.back().at + sizeof(ChunkHeader) + good_.back().used;
      note_damage(error.what(), next - lost, part_end_ - begin < sizeof(ChunkHeader) || end_ == part_end_);
      return next;
    }
  }

  /// Of a chunk that is cut, nothing is known.
  bool is_as_written(size_t begin, const ChunkHeader& head) const {
    return part_end_ - begin < header_.chunk_bytes ||
           head.checksum == wire::recording::checksum_of(&bytes_[begin], header_.chunk_bytes, head.used);
  }

  size_t end_of_chunks(size_t at) {
    if (bytes_.substr(at, part_end_ - at).find_first_not_of('\0') != std::string::npos)
      throw refuse(at, "the file ends within a chunk's header");
    return part_end_;
  }

  size_t next_place(size_t begin) const {
    return begin + std::min(size_t{header_.chunk_bytes}, part_end_ - begin);
  }

  /// Behind a damaged one.
  size_t next_chunk(size_t begin) const {
    if (!is_packed_) return next_place(begin);
    const auto is_begin = [&](size_t at) {
      return at == part_end_ || bytes_.compare(at, kChunkBegin.size(), kChunkBegin) == 0;
    };
    if (end_ != 0 && is_begin(end_)) return end_;
    // Where a chunk does not say how long it is, the next one is found by how it begins.
    return std::min(bytes_.find(kChunkBegin, begin + 1), part_end_);
  }

  /// What is wrong with the end of a part is one damage, whoever notices it.
  void note_damage(const std::string& what, uint64_t lost, bool is_end) {
    if (is_end && (part_end_ < bytes_.size() || std::exchange(is_end_noted_, true))) return;
    damage_->bytes += lost;
    if (damage_->parts++ == 0) damage_->first = what;
  }

  /// A program that the library is part of may have several ways through it from one call site. They have one
  /// text, and from here on one number.
  void join_equal_stacks() {
    std::map<std::string_view, uint32_t> first;
    std::unordered_map<uint32_t, uint32_t> others;
    for (const auto& [number, text] : made_.stacks) {
      const auto [known, is_new] = first.emplace(text, number);
      if (!is_new) others[number] = known->second;
    }
    if (others.empty()) return;
    for (Happened& event : made_.events) {
      if (const auto found = others.find(event.stack); found != others.end()) event.stack = found->second;
    }
    for (const auto& [number, joined] : others) made_.stacks.erase(number);
  }

  std::string file_;
  Damage* damage_;
  std::string bytes_;
  Header header_{};
  uint64_t chunks_ = 0;  // that are there, damaged ones too
  bool is_packed_ = false;
  bool is_end_noted_ = false;
  std::vector<size_t> part_ends_;  // behind which something is missing, or the file ends
  size_t part_end_ = 0;            // of the part that is being read
  Recording made_;
  std::vector<Chunk> good_;
  EventReader events_{file_, bytes_, made_};
  size_t end_ = 0;  // of the chunk that is being read
};

/// A few kilobytes may unpack to more events than there is memory for.
template <typename Read>
auto within_memory(const std::string& file, Read read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    throw InputError(file_label(file) + ": the recording does not fit in this machine's memory");
  }
}

}  // namespace

void refuse_recording(const std::string& label, std::string_view begin) {
  if (begin.starts_with(kMagic))
    throw InputError(label +
                     ": at byte 0: this is a recording of gpupool: 'gpupool export' makes a trace of it");
}

Recording read_recording(const std::string& file, Damage* damage) {
  return within_memory(file, [&] { return Reader(file, damage).read(); });
}

void pack_recording(const std::string& file, const std::string& to, Damage& damage, ProcessEnd end) {
  const std::string packed = within_memory(file, [&] {
    Reader reader(file, &damage);
    (void)reader.read();
    return pack_chunks(reader.good_chunks(end));
  });
  write_new(to, packed);
}

}  // namespace gpupool::cli
