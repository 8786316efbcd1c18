// SPDX-License-Identifier: Apache-2.0
// Values among bytes, as the machine has them.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace gpupool::cli {

/// The value at this place, which must be within.
template <typename Value>
Value value_in(std::string_view bytes, size_t at) {
  Value value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <typename Value>
void put_value(std::string& bytes, size_t at, const Value& value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// What a field says, up to its 0 if it has one.
template <size_t Size>
std::string text_of(const char (&field)[Size]) {
  return {field, strnlen(field, Size)};
}

/// Fills a field as far as there is room for it and a 0.
template <size_t Size>
void put_text(char (&field)[Size], std::string_view text) {
  field[text.copy(field, Size - 1)] = '\0';
}

}  // namespace gpupool::cli
