// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpupool::cli {

/// The text as gzip packs it. `most_growth`: what is behind its first 8 MiB unpacks to so many times its size
/// at most, since readers refuse what unpacks to more; 0: to any size.
std::string pack_gzip(std::string_view text, size_t most_growth = 0);

/// Writes text packed to a file that must not exist. Throws InputError, and leaves no file.
void write_gzip(const std::string& to, std::string_view text, size_t most_growth = 0);

}  // namespace gpupool::cli
