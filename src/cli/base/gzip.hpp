// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpupool::cli {

/// The text as gzip packs it.
std::string pack_gzip(std::string_view text);

/// The texts as members of one gzip file, which unpacks to all of them; each has its own checksum and a
/// MemberLabel. It ends with an empty member, so that a file which was cut is known from one whose last bytes
/// are damaged. What is behind the first 8 MiB unpacks to `most_growth` times its size at most, since readers
/// refuse what unpacks to more.
std::string pack_members(const std::vector<std::string_view>& texts, size_t most_growth);

/// What a member says of itself in its gzip header, so that one which is missing, comes twice or is of
/// another file is noticed, and of a damaged one is known how far it is whole.
struct MemberLabel {
  uint32_t file = 0;             // the checksum of all that the file unpacks to
  uint64_t at = 0;               // where this member begins in that
  std::vector<uint32_t> blocks;  // checksums of each 4 KiB of it, and of what is left

  /// How many bytes of what came out of this member are as they were. `is_cut`: and what came out last of one
  /// that is cut, within a block, of which nothing is known.
  size_t whole_bytes(std::string_view text, bool is_cut = false) const;
};

/// The label in the extra field of a gzip header; nothing: it has another one.
std::optional<MemberLabel> read_member_label(std::string_view extra);

/// Members of a file, one after another. A file of other tools has no labels.
class MemberOrder {
 public:
  /// Whether a member with this label is of the file and behind the ones that were added.
  bool takes(const std::optional<MemberLabel>& label) const;
  /// In words, why it is not the next one; "": it is.
  std::string what_is_wrong(const std::optional<MemberLabel>& label) const;
  void add(const std::optional<MemberLabel>& label, uint64_t unpacked_bytes);

 private:
  bool is_empty_ = true;
  std::optional<uint32_t> file_;
  uint64_t end_ = 0;
};

/// Writes bytes to a file that must not exist. Throws InputError, and leaves no file.
void write_new(const std::string& to, std::string_view bytes);

}  // namespace gpupool::cli
