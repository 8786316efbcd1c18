// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpupool::cli {

/// The text, with U+FFFD for what is not UTF-8: names of a recording may be any bytes.
std::string valid_utf8(std::string_view text);

/// A text that another process wrote, safe for a terminal or a file of lines: valid UTF-8 with "?" in place
/// of control characters and of those that turn the line around.
std::string harmless(std::string_view text);

/// JSON of valid UTF-8 that means the same, and has escapes in place of what `harmless` replaces.
std::string harmless_json(std::string_view json);

/// How many places of a terminal a text of valid UTF-8 takes: two for an East Asian letter or a picture.
size_t display_width(std::string_view text);
/// As much of a text as fits into so many places.
std::string cut_to_width(std::string_view text, size_t width);

/// Adds a character by its number.
void append_utf8(std::string& text, uint32_t code);

}  // namespace gpupool::cli
