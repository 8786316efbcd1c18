// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "cli/base/gzip.hpp"
#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/salvage_file.hpp"
#include "cli/base/text_file.hpp"
#include "cli/recording/event_reader.hpp"
#include "cli/recording/file_layout.hpp"
#include "cli/recording/packing.hpp"

namespace gpupool::cli {
namespace {

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
      if (bytes > kMostRecordingBytes) throw refuse(bytes, "the recording is larger than 4 GiB");
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
    size_t at = header_bytes_;
    for (const size_t end : part_ends_)
      for (part_end_ = end; at < end; progress.set(at)) at = read_chunk(at);
    check_end();
    std::sort(made_.events.begin(), made_.events.end(), [](const Happened& a, const Happened& b) {
      return std::tie(a.ns, a.place) < std::tie(b.ns, b.place);
    });
    join_equal_stacks();
    return std::move(made_);
  }

  /// The good parts, after read().
  std::string good_chunks(ProcessEnd end) const {
    std::string text = bytes_.substr(0, header_bytes_);
    if (end.how != ProcessEnd::How::unknown && header_bytes_ >= kHeaderWithEnd) {
      put_number(text, kAtEnd, static_cast<uint32_t>(end.how));
      put_number(text, kAtEnd + 4, end.number);
    }
    const bool is_cut = damage_ != nullptr && damage_->parts != 0;
    put_number(text, kAtFlags, u32(kAtFlags) | kFlagPacked | (is_cut ? kFlagCut : 0));
    for (const Chunk& chunk : good_) {
      if (chunk.used == 0) continue;
      const size_t at = text.size();
      text.append(bytes_, chunk.at, kChunkHeader + chunk.used);
      put_number(text, at + kAtUsed, static_cast<uint32_t>(chunk.used));
      put_number(text, at + kAtChecksum, uint32_t{0});
    }
    return text;
  }

 private:
  InputError refuse(size_t at, std::string_view why) const { return refuse_at(file_, at, why); }

  static InputError with_help(const InputError& error) {
    return InputError(fmt::format("{}: 'gpupool salvage' saves what is there", error.what()));
  }

  uint32_t u32(size_t at) const { return number_in<uint32_t>(bytes_, at); }
  uint64_t u64(size_t at) const { return number_in<uint64_t>(bytes_, at); }

  /// A text of at most `room` bytes, up to its terminating zero.
  std::string text_at(size_t at, size_t room) const {
    return bytes_.substr(at, std::min(bytes_.find('\0', at) - at, room));
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
    const uint64_t begun = is_packed_ ? 0 : u64(kAtChunks);
    const uint64_t missing = begun - std::min(chunks_, begun);
    std::string what;
    if (should_have_header_copy(bytes_) && header_copy(bytes_).empty())
      what = "the end of the file is missing";
    if (missing != 0)
      what = fmt::format("{} of its {} chunks {} missing", missing, begun, missing == 1 ? "is" : "are");
    if (what.empty()) return;
    const InputError error = refuse(bytes_.size(), what);
    if (damage_ == nullptr) throw with_help(error);
    note_damage(error.what(), 0, missing == 0 || (bytes_.size() - header_bytes_) / chunk_bytes_ < begun);
  }

  void read_header() {
    if (bytes_.starts_with(kChunkBegin)) throw with_help(refuse(0, kNoHeader));
    if (bytes_.size() < kHeaderLeast) {
      throw refuse(bytes_.size(),
                   fmt::format("the file ends within the {} bytes of its header", kHeaderLeast));
    }
    if (bytes_.compare(0, kMagic.size(), kMagic) != 0) throw refuse(0, "this is no recording of gpupool");
    if (const uint32_t version = u32(kAtVersion); version != kVersion) {
      throw refuse(kAtVersion,
                   fmt::format("the recording is of version {}, and this command reads version {}", version,
                               kVersion));
    }
    header_bytes_ = u32(kAtHeaderBytes);
    chunk_bytes_ = u32(kAtChunkBytes);
    if (header_bytes_ < kHeaderLeast || header_bytes_ > bytes_.size()) {
      throw refuse(kAtHeaderBytes, fmt::format("a header of {} bytes cannot be", header_bytes_));
    }
    if (chunk_bytes_ <= kChunkHeader || chunk_bytes_ > (size_t{1} << 30)) {
      throw refuse(kAtChunkBytes, fmt::format("chunks of {} bytes cannot be", chunk_bytes_));
    }
    const uint32_t shift = u32(kAtShift);
    if (shift > 32) throw refuse(kAtShift, fmt::format("a shift by {} cannot be", shift));
    const uint64_t rate = u64(kAtRate);
    if (rate == 0) throw refuse(kAtRate, "a clock without ticks cannot be");
    events_.set_clock({shift, rate, u64(kAtStartTicks) >> shift});
    made_.file = file_;
    made_.pid = u32(kAtPid);
    made_.start_realtime_ns = u64(kAtRealtime);
    made_.lost = u64(kAtLost);
    made_.is_cut = (u32(kAtFlags) & kFlagCut) != 0;
    made_.is_ended = (u32(kAtFlags) & kFlagEnded) != 0;
    if (header_bytes_ >= kHeaderWithEnd)
      made_.end = {static_cast<ProcessEnd::How>(u32(kAtEnd)), u32(kAtEnd + 4)};
    made_.library = text_at(kAtLibrary, kLibraryRoom);
    made_.command = bytes_.substr(kAtCommand, kCommandRoom);
    made_.command.resize(std::min(made_.command.find(std::string_view("\0\0", 2)), made_.command.size()));
    while (!made_.command.empty() && made_.command.back() == '\0') made_.command.pop_back();
    std::replace(made_.command.begin(), made_.command.end(), '\0', ' ');
    is_packed_ = (u32(kAtFlags) & kFlagPacked) != 0;
  }

  /// Returns where the next chunk begins.
  size_t read_chunk(size_t begin) {
    end_ = 0;
    try {
      if (part_end_ - begin < kChunkHeader) return end_of_chunks(begin);
      // Room taken but not yet used, or a thread stopped before it wrote anything.
      if (!is_packed_ && u32(begin) == 0) return next_place(begin);
      ++chunks_;
      if (bytes_.compare(begin, kChunkBegin.size(), kChunkBegin) != 0)
        throw refuse(begin, "there should be a chunk");
      const size_t used = u32(begin + kAtUsed);
      const size_t room = chunk_bytes_ - kChunkHeader;
      if (used > room) throw refuse(begin + kAtUsed, fmt::format("a chunk of {} bytes cannot be", used));
      const size_t length = is_packed_ || used != 0 ? used : room;
      if (!is_packed_ && used != 0 && !is_as_written(begin))
        throw refuse(begin, "the chunk is not as it was written");
      end_ = begin + kChunkHeader + length;
      if (end_ > part_end_) {
        if (damage_ == nullptr) throw refuse(part_end_, "the file ends within a chunk");
        note_damage("the file ends within a chunk", 0, true);
        end_ = part_end_;
      }
      good_.push_back({begin, 0});
      events_.begin_chunk(begin + kChunkHeader, end_, u64(begin + kAtFirst),
                          {u32(begin + kAtThread), text_at(begin + kAtName, kNameRoom)});
      do good_.back().used = events_.at() - begin - kChunkHeader;
      while (events_.next());
      return is_packed_ ? end_ : next_place(begin);
    } catch (const InputError& error) {
      if (damage_ == nullptr) throw with_help(error);
      const size_t next = next_chunk(begin);
      const size_t lost = end_ == 0 ? begin : good_.back().at + kChunkHeader + good_.back().used;
      note_damage(error.what(), next - lost, part_end_ - begin < kChunkHeader || end_ == part_end_);
      return next;
    }
  }

  /// Of a chunk that is cut, nothing is known.
  bool is_as_written(size_t begin) const {
    const std::string_view chunk = std::string_view(bytes_).substr(begin, chunk_bytes_);
    return part_end_ - begin < chunk_bytes_ || u32(begin + kAtChecksum) == checksum_of(chunk);
  }

  size_t end_of_chunks(size_t at) {
    if (bytes_.substr(at, part_end_ - at).find_first_not_of('\0') != std::string::npos)
      throw refuse(at, "the file ends within a chunk's header");
    return part_end_;
  }

  size_t next_place(size_t begin) const { return begin + std::min(chunk_bytes_, part_end_ - begin); }

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
  size_t header_bytes_ = 0;
  size_t chunk_bytes_ = 0;
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
