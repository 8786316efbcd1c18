// SPDX-License-Identifier: Apache-2.0
#include "cli/base/salvage_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace gpupool::cli {
namespace {

/// What a member of a gzip file unpacks to.
struct Member {
  std::string text;
  std::optional<MemberLabel> label;
  std::optional<DamagedFile> damage;
  size_t end = 0;  // in the file, of what was read of it
};

/// Reads a file that may be damaged, see salvage_file.
class Salvage {
 public:
  Salvage(const std::string& path, Begins begins, const std::function<void(uint64_t)>& fits, TextFile how)
      : begins_(begins),
        fits_(fits),
        packed_(path),
        file_(packed_.load(fits)),
        all_(without_end(file_, kMostZeroes)),
        keep_([this](std::string_view piece) {
          fits_(made_.text.size() + text_.size() + piece.size());
          text_ += piece;
        }),
        unpacker_(packed_, keep_, how) {}

  Salvaged run() {
    if (file_.starts_with(begins_.plain)) {
      made_.text = file_;
      return std::move(made_);
    }
    size_t at = 0;
    Member member = unpack(at, all_.size());
    while (all_.find_first_not_of('\0', at) != std::string_view::npos) {
      if (member.damage || !order_.takes(member.label)) {
        at = skip(at, member);
        continue;
      }
      note_missing(at, member);
      at = member.end;
      use(member.label, std::move(member.text));
      member = unpack(at, all_.size());
    }
    return std::move(made_);
  }

 private:
  /// A file's end that was never written may be zeroes; only so many belong to a member that is empty.
  static constexpr size_t kMostZeroes = 9;

  static std::string_view without_end(std::string_view bytes, size_t zeroes) {
    return bytes.substr(0, std::min(bytes.size(), bytes.find_last_not_of('\0') + 1 + zeroes));
  }

  Member unpack(size_t at, size_t end) {
    Member member;
    packed_.go_to(at, end);
    try {
      unpacker_.unpack_member();
    } catch (const DamagedFile& damage) {
      member.damage = damage;
    }
    member.text = std::exchange(text_, "");
    member.label = unpacker_.label();
    member.end = packed_.consumed();
    return member;
  }

  void use(const std::optional<MemberLabel>& label, std::string text) {
    order_.add(label, text.size());
    if (made_.text.empty()) {
      made_.text = std::move(text);
    } else {
      made_.text += text;
    }
  }

  /// Before a whole member, if that does not follow on a damaged one.
  void note_missing(size_t at, const Member& member) {
    const bool is_known = !made_.gaps.empty() && made_.gaps.back().at == made_.text.size();
    if (const std::string why = order_.what_is_wrong(member.label); !is_known && !why.empty())
      made_.gaps.push_back({made_.text.size(), 0, about(at, why)});
  }

  /// Goes from a member that is damaged, or is not in its place, to the next one of which something is whole.
  /// What was unpacked beyond the damage does not say where that begins. Returns where it begins.
  size_t skip(size_t at, Member& member) {
    const Member damaged = std::exchange(member, Member());
    const bool has_place = order_.takes(damaged.label);
    const std::string why = damaged.damage ? "" : order_.what_is_wrong(damaged.label);
    const size_t whole = has_place && damaged.label ? damaged.label->whole_bytes(damaged.text) : 0;
    if (whole != 0) use(damaged.label, damaged.text.substr(0, whole));
    for (size_t next = all_.find(kGzipBegin, at + 1); next != std::string_view::npos;
         next = all_.find(kGzipBegin, next + 1)) {
      member = unpack(next, all_.size());
      if (!can_use(member)) continue;
      note_damaged(at, next, why);
      return next;
    }
    end(at, damaged, has_place, whole, why);
    return all_.size();
  }

  bool can_use(const Member& member) const {
    const bool is_whole = !member.damage || (member.label && member.label->whole_bytes(member.text) != 0);
    return is_whole && order_.takes(member.label) &&
           (member.text.empty() || member.text.starts_with(begins_.member));
  }

  /// Of a member with none behind it of which something is whole; so much of this one is used.
  void end(size_t at, const Member& damaged, bool has_place, size_t used, const std::string& why) {
    if (at == 0 && !is_gzip(file_)) {
      made_.text = file_;
      return;
    }
    const size_t written = without_end(all_, 0).size();
    const bool is_written = all_.size() - written < kMostZeroes;
    const Member last = is_written ? damaged : unpack(at, written);
    const bool is_cut = last.damage && (last.damage->is_cut || (at == 0 && !last.label));
    if (!is_cut) return note_damaged(at, all_.size(), why);
    const size_t usable = last.label ? last.label->whole_bytes(last.text, true) : last.text.size();
    if (has_place && usable > used) made_.text.append(last.text, used, usable - used);
    made_.gaps.push_back({made_.text.size(), 0, last.damage->what()});
  }

  void note_damaged(size_t from, size_t to, const std::string& why) {
    made_.gaps.push_back(
        {made_.text.size(), to - from,
         about(from, why.empty() ? fmt::format("{} bytes of gzip data are damaged", to - from) : why)});
  }

  std::string about(size_t at, std::string_view why) const {
    return fmt::format("{}: at byte {}: {}", packed_.label(), at, why);
  }

  const Begins begins_;
  const std::function<void(uint64_t)>& fits_;
  Bytes packed_;
  const std::string_view file_;
  const std::string_view all_;  // that was written of it
  const std::function<void(std::string_view)> keep_;
  Unpacker unpacker_;
  MemberOrder order_;
  std::string text_;  // of the member that is being unpacked
  Salvaged made_;
};

}  // namespace

Salvaged salvage_file(const std::string& path, Begins begins, const std::function<void(uint64_t)>& fits,
                      TextFile how) {
  return Salvage(path, begins, fits, how).run();
}

}  // namespace gpupool::cli
