// SPDX-License-Identifier: Apache-2.0
// How a recording is packed, so that damage costs little of it: see docs/watch.md for the format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpupool::cli {

/// How many times its size a file with a recording may unpack to. Gzip packs most to a fourth or a tenth; an
/// event then takes 56 bytes of memory.
inline constexpr uint64_t kMostGrowth = 32;

/// A recording whose chunks are as long as they say, as gzip members: its header, whole chunks, and a chunk
/// without events that has a copy of the header.
std::string pack_chunks(std::string recording);

/// The copy of its header that a recording ends with, if it has one.
std::string_view header_copy(std::string_view recording);

}  // namespace gpupool::cli
