// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "os/library.hpp"

namespace gpupool::inject {

/// A function of a library that is loaded at run time; null if there is none, and false.
template <typename Function>
bool find_function(void* library, const char* name, Function& function) noexcept {
  void* const found = library != nullptr ? internal::os::find_symbol(library, name) : nullptr;
  static_assert(sizeof function == sizeof found);
  std::memcpy(&function, &found, sizeof found);
  return found != nullptr;
}

}  // namespace gpupool::inject
