// SPDX-License-Identifier: Apache-2.0
// Reads a text file that may be compressed, piece by piece.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gpupool::cli {

/// What a message calls a file: its path, and "standard input" for "-".
std::string file_label(const std::string& path);

/// Hands the text of a file ("-": standard input) to `use` in pieces of bounded size, unpacked if its content
/// (not its name) says that it is gzip. The pieces are valid during the call only. It keeps none of the text,
/// so a small file that unpacks to a huge text costs no memory. A caller that keeps the text says by
/// `most_growth` how many times the file's size it may have, beyond a MiB; 0: any. Throws InputError if it is
/// larger, if the file cannot be read, or if its gzip data is damaged, cut, or followed by something else.
void read_text(const std::string& path, const std::function<void(std::string_view)>& use,
               uint64_t most_growth = 0);

}  // namespace gpupool::cli
