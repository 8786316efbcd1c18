// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "share/region.hpp"

namespace gpupool::internal::share {
namespace {

constexpr size_t kGroupMax = 48;

}  // namespace

Status check_group(const char* what, const char* name) {
  const size_t length = strnlen(name, kGroupMax + 1);
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (length != 0 && length <= kGroupMax && name[0] != '.' && std::all_of(name, name + length, is_allowed)) {
    return kSuccess;
  }
  return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
              "%s is \"%.64s\", not 1 to %zu letters, digits, '-', '_' and '.', no '.' first", what, name,
              kGroupMax);
}

}  // namespace gpupool::internal::share
