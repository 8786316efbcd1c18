// SPDX-License-Identifier: Apache-2.0
// Reading a text file that may be compressed.
#pragma once

#include <string>

namespace gpupool::cli {

/// The whole text of a file, unpacked if its content (not its name) says that it is gzip. Throws InputError
/// if the file can not be read, or its gzip data is damaged, cut, or followed by something else.
std::string read_text(const std::string& path);

}  // namespace gpupool::cli
