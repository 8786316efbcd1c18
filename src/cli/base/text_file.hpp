// SPDX-License-Identifier: Apache-2.0
// Reads a text file that may be compressed, piece by piece.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/base/unpacker.hpp"

namespace gpupool::cli {

/// Hands the text of a file ("-": standard input) to `use` in pieces of bounded size, unpacked if its content
/// (not its name) says that it is gzip, and as UTF-8 or UTF-16 if it begins with their mark: of UTF-16, what
/// is not ASCII becomes '?'. The pieces are valid during the call only. It keeps none of the text, so a small
/// file that unpacks to a huge text costs no memory; a caller that keeps the text bounds its growth. Throws
/// InputError if it is larger or if the file cannot be read; DamagedFile if its gzip data is damaged, cut, or
/// followed by something else.
void read_text(const std::string& path, const std::function<void(std::string_view)>& use, TextFile how = {});

}  // namespace gpupool::cli
