// SPDX-License-Identifier: Apache-2.0
// Structs that grow: the caller says how much of a struct it knows.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "abi/call.hpp"

namespace gpupool::internal::abi {

/// The first version of every struct had at least its first 8 bytes.
inline constexpr size_t kShortest = 8;

/// No struct will ever be this long: a guard against garbage in struct_size.
inline constexpr size_t kLongest = 64 * 1024;

/// Checks how much of a struct the caller claims to know; `argument` is what the message calls that size.
inline Status check_size(size_t size, const char* argument) noexcept {
  if (size >= kShortest && size <= kLongest) return kSuccess;
  return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "%s is %zu, not %zu to %zu: it is the sizeof of the struct",
              argument, size, kShortest, kLongest);
}

/// For a struct that is longer than this library knows, with nonzero bytes there.
inline Status refuse_longer(const char* argument, size_t size, size_t known, size_t offset) noexcept {
  return fail(
      GPUPOOL_ERROR_UNSUPPORTED,
      "%s is %zu, and byte %zu is not zero: version %d.%d.%d knows the first %zu bytes, and the rest must be "
      "zero",
      argument, size, offset, GPUPOOL_VERSION_MAJOR, GPUPOOL_VERSION_MINOR, GPUPOOL_VERSION_PATCH, known);
}

/// Reads a struct of any version: what the caller does not know is zero; what this library does not know must
/// be zero. `argument` is what messages call its struct_size.
template <typename Struct>
Status read_struct(const Struct* in, Struct& out, const char* argument) noexcept {
  const size_t size = in->struct_size;
  if (const Status status = check_size(size, argument); status != kSuccess) return status;
  const auto* bytes = reinterpret_cast<const unsigned char*>(in);
  for (size_t offset = sizeof(Struct); offset < size; ++offset) {
    if (bytes[offset] != 0) return refuse_longer(argument, size, sizeof(Struct), offset);
  }
  out = {};
  std::memcpy(&out, in, std::min(size, sizeof(Struct)));
  out.struct_size = sizeof(Struct);
  return kSuccess;
}

/// Writes as much of a struct as the caller knows, and its size.
template <typename Struct>
void write_struct(const Struct& in, Struct* out) noexcept {
  const size_t size = std::min<size_t>(out->struct_size, sizeof(Struct));
  std::memcpy(out, &in, size);
  out->struct_size = static_cast<uint32_t>(size);
}

/// Writes an element of an array whose elements have `size` bytes for the caller; the rest is zero.
template <typename Struct>
void write_element(const Struct& in, void* out, size_t size) noexcept {
  const size_t known = std::min(size, sizeof(Struct));
  std::memcpy(out, &in, known);
  std::memset(static_cast<unsigned char*>(out) + known, 0, size - known);
}

/// Writes as many elements of such an array as the caller has room for, each as `show` makes it.
template <typename Value, typename Show = std::identity>
void write_list(const std::vector<Value>& from, void* to, size_t size, size_t capacity,
                Show show = {}) noexcept {
  auto* at = static_cast<unsigned char*>(to);
  for (size_t i = 0; i < std::min(from.size(), capacity); ++i)
    write_element(show(from[i]), at + i * size, size);
}

/// Checks where a text goes, before it is made: its caller gets at most `capacity` bytes with the terminating
/// zero, and, unless `out` is NULL, a number, which is zero until then.
template <typename Number>
Status expect_text(const char* text, size_t capacity, Number* out) noexcept {
  if (out != nullptr) *out = 0;
  return capacity != 0 && text == nullptr ? refuse_null("text") : kSuccess;
}

inline Status give_text(std::string_view words, char* text, size_t capacity,
                        size_t* out_length = nullptr) noexcept {
  if (capacity != 0) text[words.copy(text, capacity - 1)] = '\0';
  if (out_length != nullptr) *out_length = words.size();
  return kSuccess;
}

}  // namespace gpupool::internal::abi
