// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gpupool::cli {

/// The text as gzip packs it.
std::string pack_gzip(std::string_view text);

/// The texts as members of one gzip file, which unpacks to all of them; each has its own checksum. It ends
/// with an empty member, so that a file which was cut is known from one whose last bytes are damaged. What is
/// behind the first 8 MiB unpacks to `most_growth` times its size at most, since readers refuse what unpacks
/// to more.
std::string pack_members(const std::vector<std::string_view>& texts, size_t most_growth);

/// Writes bytes to a file that must not exist. Throws InputError, and leaves no file.
void write_new(const std::string& to, std::string_view bytes);

}  // namespace gpupool::cli
