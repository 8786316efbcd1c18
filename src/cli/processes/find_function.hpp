// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <cstring>

namespace gpupool::cli {

/// A function of a library of the driver's; null if there is none, and false.
template <typename Function>
bool find_function(void* library, const char* name, Function& function) noexcept {
  void* const found = dlsym(library, name);
  static_assert(sizeof function == sizeof found);
  std::memcpy(&function, &found, sizeof found);
  return found != nullptr;
}

}  // namespace gpupool::cli
