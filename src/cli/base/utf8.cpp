// SPDX-License-Identifier: Apache-2.0
#include "cli/base/utf8.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace gpupool::cli {
namespace {

/// Whether it is printable ASCII, as nearly all texts are: one byte a character, each a column wide.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

/// How many bytes the character at the beginning of a text has; 0 if it is none.
size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Too long for what they say, halves of surrogates, and what is beyond Unicode.
  const bool is_wrong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) > 0x9f) ||
                        (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) > 0x8f);
  return is_wrong ? 0 : length;
}

/// The number of the character at the beginning of a text of valid UTF-8.
uint32_t code_point(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  switch (character_length(text)) {
    case 1: return byte(0);
    case 2: return (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
    case 3: return (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
  }
}

/// Whether a character is a control, a mark of direction, or ends a line.
bool is_harmful(uint32_t code) {
  return code < ' ' || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0x061c;
}

size_t width_of(uint32_t code) {
  constexpr uint32_t kHangul = 0x1100;
  constexpr uint32_t kHangulEnd = 0x1200;
  constexpr uint32_t kRadicals = 0x2e80;  // from here on hardly anything is narrow
  return (code >= kHangul && code < kHangulEnd) || code >= kRadicals ? 2 : 1;
}

}  // namespace

std::string harmless(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  const std::string valid = valid_utf8(text);
  std::string result;
  for (std::string_view rest = valid; !rest.empty();) {
    const size_t length = character_length(rest);
    result += is_harmful(code_point(rest)) ? "?" : rest.substr(0, length);
    rest.remove_prefix(length);
  }
  return result;
}

std::string harmless_json(std::string_view json) {
  std::string result;
  while (!json.empty()) {
    const size_t length = character_length(json);
    const uint32_t code = code_point(json);
    // Who wrote the JSON has escaped the controls of ASCII. All others are of four digits.
    if (code >= 0x7f && is_harmful(code)) {
      result += fmt::format("\\u{:04x}", code);
    } else {
      result += json.substr(0, length);
    }
    json.remove_prefix(length);
  }
  return result;
}

size_t display_width(std::string_view text) {
  if (is_plain(text)) return text.size();
  size_t width = 0;
  for (; !text.empty(); text.remove_prefix(character_length(text))) width += width_of(code_point(text));
  return width;
}

std::string cut_to_width(std::string_view text, size_t width) {
  if (is_plain(text)) return std::string(text.substr(0, width));
  size_t end = 0;
  for (std::string_view rest = text; !rest.empty(); rest = text.substr(end)) {
    const size_t needed = width_of(code_point(rest));
    if (needed > width) break;
    width -= needed;
    end += character_length(rest);
  }
  return std::string(text.substr(0, end));
}

std::string valid_utf8(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::string valid;
  while (!text.empty()) {
    const size_t length = character_length(text);
    valid += length == 0 ? "\ufffd" : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return valid;
}

void append_utf8(std::string& text, uint32_t code) {
  const auto add = [&](uint32_t byte) { text += static_cast<char>(byte); };
  const auto add_rest = [&](uint32_t shift) { add(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12);
    add_rest(6);
  } else {
    add(0xf0 | code >> 18);
    add_rest(12);
    add_rest(6);
  }
  if (code >= 0x80) add_rest(0);
}

}  // namespace gpupool::cli
