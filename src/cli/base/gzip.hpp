// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gpupool::cli {

/// The text as gzip packs it.
std::string pack_gzip(const std::string& text);

/// Writes text packed to a file that must not exist. Throws InputError, and leaves no file.
void write_gzip(const std::string& to, const std::string& text);

}  // namespace gpupool::cli
