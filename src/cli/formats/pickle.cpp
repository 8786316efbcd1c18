// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/pickle.hpp"

#include "cli/base/utf8.hpp"

namespace gpupool::cli {
namespace {

// Instructions, by their names in Python's pickletools.
constexpr char kBinInt1 = 'K';
constexpr char kBinInt2 = 'M';
constexpr char kBinInt = 'J';
constexpr char kLong1 = '\x8a';
constexpr char kShortBinUnicode = '\x8c';
constexpr char kBinUnicode = 'X';
constexpr char kMemoize = '\x94';
constexpr char kBinGet = 'h';
constexpr char kLongBinGet = 'j';

}  // namespace

void Pickle::little_endian(uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i));
}

void Pickle::number(uint64_t value) {
  if (value < 1U << 8) {
    text_ += kBinInt1;
    little_endian(value, 1);
  } else if (value < 1U << 16) {
    text_ += kBinInt2;
    little_endian(value, 2);
  } else if (value < 1U << 31) {
    text_ += kBinInt;
    little_endian(value, 4);
  } else {
    // The fewest bytes that keep the sign's bit clear. A number of 64 bits is written as the largest of 63.
    value = value >> 63 != 0 ? ~uint64_t{0} >> 1 : value;
    size_t bytes = 1;
    while (bytes < 8 && value >> (8 * bytes - 1) != 0) ++bytes;
    text_ += kLong1;
    text_ += static_cast<char>(bytes);
    little_endian(value, bytes);
  }
}

void Pickle::text(std::string_view value) {
  const std::string valid = valid_utf8(value);
  if (valid.size() < 256) {
    text_ += kShortBinUnicode;
    little_endian(valid.size(), 1);
  } else {
    text_ += kBinUnicode;
    little_endian(valid.size(), 4);
  }
  text_ += valid;
}

size_t Pickle::remember() {
  text_ += kMemoize;
  return remembered_++;
}

void Pickle::recall(size_t number) {
  text_ += number < 256 ? kBinGet : kLongBinGet;
  little_endian(number, number < 256 ? 1 : 4);
}

}  // namespace gpupool::cli
