// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace gpupool::cli {

/// The text as gzip packs it, but what is larger than 8 MiB not to less than a 16th.
std::string pack_gzip(std::string_view text);

/// Writes text packed to a file that must not exist. Throws InputError, and leaves no file.
void write_gzip(const std::string& to, std::string_view text);

}  // namespace gpupool::cli
