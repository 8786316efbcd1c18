// SPDX-License-Identifier: Apache-2.0
// The frames of a stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpupool::internal::os {

/// The calling thread's return addresses, innermost first. Returns how many. `cautious`: by means that no
/// memory checker complains about.
size_t take_frames(void** frames, size_t room, bool cautious) noexcept;
/// In a child of fork: from here on, frames are taken without libraries that know nothing of fork.
void forget_unwinder() noexcept;

struct Span {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};
/// The addresses of this library's code; empty if it is the program itself, whose frames are the user's too,
/// or if the system does not say.
Span own_code() noexcept;

/// Where code is from. Empty names: the system does not know.
struct Origin {
  std::string function;  // as the compiler named it
  std::string module;    // the file, without its folder
  uintptr_t function_begin = 0;
  uintptr_t module_begin = 0;
};
Origin origin_of(const void* code);

}  // namespace gpupool::internal::os
