// SPDX-License-Identifier: Apache-2.0
// Structs that grow: the caller says how much of one it knows.
#pragma once

#include <algorithm>
#include <cstring>

#include "abi/call.hpp"

namespace gpupool::abi {

/// The first version of every struct had at least its first 8 bytes.
inline constexpr size_t kShortest = 8;

/// No struct will ever be this long: a guard against garbage in struct_size.
inline constexpr size_t kLongest = 64 * 1024;

inline Status check_size(size_t size, const char* name) noexcept {
  if (size >= kShortest && size <= kLongest) return kSuccess;
  return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "%s has a struct_size of %zu: set it to sizeof", name, size);
}

/// Reads a struct of any version: what the caller does not know is zero; what this library does not know must
/// be zero.
template <typename Struct>
Status read_struct(const Struct* in, Struct& out, const char* name) noexcept {
  const size_t size = in->struct_size;
  if (const Status status = check_size(size, name); status != kSuccess) return status;
  const auto* bytes = reinterpret_cast<const unsigned char*>(in);
  if (size > sizeof(Struct) &&
      std::any_of(bytes + sizeof(Struct), bytes + size, [](unsigned char byte) { return byte != 0; })) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED,
                "%s has fields that version "
                "%d.%d.%d does not know",
                name, GPUPOOL_VERSION_MAJOR, GPUPOOL_VERSION_MINOR, GPUPOOL_VERSION_PATCH);
  }
  out = {};
  std::memcpy(&out, in, std::min(size, sizeof(Struct)));
  out.struct_size = sizeof(Struct);
  return kSuccess;
}

/// Writes as much of a struct as the caller knows, and how much that was.
template <typename Struct>
void write_struct(const Struct& in, Struct* out) noexcept {
  const size_t size = std::min<size_t>(out->struct_size, sizeof(Struct));
  std::memcpy(out, &in, size);
  out->struct_size = static_cast<uint32_t>(size);
}

/// Writes an element of an array whose elements the caller thinks are `size` bytes; the rest is zero.
template <typename Struct>
void write_element(const Struct& in, void* out, size_t size) noexcept {
  const size_t known = std::min(size, sizeof(Struct));
  std::memcpy(out, &in, known);
  std::memset(static_cast<unsigned char*>(out) + known, 0, size - known);
}

}  // namespace gpupool::abi
