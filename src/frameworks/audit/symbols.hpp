// SPDX-License-Identifier: Apache-2.0
// What a loaded object exports, read from its own tables: dlsym would come back to this library, and knows
// only objects that were opened by name.
#pragma once

#include <link.h>

#include <cstring>

namespace gpupool::audit {

/// The address of a function that the object defines; null if it defines none of this name.
void* find_symbol(const link_map& object, const char* name) noexcept;

/// As it was if the object defines none of this name.
template <typename Function>
void find_function(const link_map& object, const char* name, Function& function) noexcept {
  void* const found = find_symbol(object, name);
  static_assert(sizeof function == sizeof found);
  if (found != nullptr) std::memcpy(&function, &found, sizeof found);
}

template <typename Function>
void* address_of(Function* function) noexcept {
  return reinterpret_cast<void*>(function);
}

}  // namespace gpupool::audit
