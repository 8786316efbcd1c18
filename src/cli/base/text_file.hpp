// SPDX-License-Identifier: Apache-2.0
// Reads a text file that may be compressed, piece by piece.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/library.hpp"

namespace gpupool::cli {

/// What a message calls a file: its path, and "standard input" for "-".
std::string file_label(const std::string& path);

/// Of a file with damaged gzip data: what came before the damage has been handed on.
class DamagedFile : public InputError {
 public:
  explicit DamagedFile(const std::string& what, bool cut = false) : InputError(what), is_cut(cut) {}
  bool is_cut;  // the file ends before its data
};

/// How a file is read.
struct TextFile {
  uint64_t most_growth = 0;  // how many times its size it may unpack to, beyond 16 MiB; 0: any
  bool is_binary = false;    // messages name bytes, not lines, and a mark of byte order means nothing
};

/// Hands the text of a file ("-": standard input) to `use` in pieces of bounded size, unpacked if its content
/// (not its name) says that it is gzip, and as UTF-8 or UTF-16 if it begins with their mark: of UTF-16, what
/// is not ASCII becomes '?'. The pieces are valid during the call only. It keeps none of the text, so a small
/// file that unpacks to a huge text costs no memory; a caller that keeps the text bounds its growth. Throws
/// InputError if it is larger or if the file cannot be read; DamagedFile if its gzip data is damaged, cut, or
/// followed by something else.
void read_text(const std::string& path, const std::function<void(std::string_view)>& use, TextFile how = {});

/// A damaged part of a file.
struct Gap {
  size_t at;         // of Salvaged::text
  uint64_t lost;     // bytes of the file; 0: unknown
  std::string what;  // "file: at byte N: what is wrong"
};

struct Salvaged {
  std::string text;
  std::vector<Gap> gaps;
};

/// How a file to be salvaged begins: if it is not packed; and each gzip member but the first.
struct Begins {
  std::string_view plain;
  std::string_view member;
};

/// What a file unpacks to, without its damaged gzip members: each that is used is as its checksum says.
/// If none is whole behind a damaged one, the file may have been cut, and what can be unpacked of that one is
/// used; so it is if the file has no other one, though what follows the damage may be wrong. `fits` throws if
/// so many bytes, packed or not, are too many. Throws InputError as read_text does, but DamagedFile never.
Salvaged salvage_file(const std::string& path, Begins begins, const std::function<void(uint64_t)>& fits,
                      TextFile how);

}  // namespace gpupool::cli
