// SPDX-License-Identifier: Apache-2.0
// The frames of a stack.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace gpupool::internal::os {

inline constexpr size_t kFrames = 48;

struct Stack {
  std::array<void*, kFrames> frames;  // the return addresses, innermost first
  size_t count = 0;
  /// 0, or what the caller wrote here when this thread took the same stack before. Null: nowhere to write.
  /// Good until the thread's next take_frames.
  uintptr_t* mark = nullptr;
};

/// Sets the calling thread's stack. `cautious`: by means that no memory checker complains about.
void take_frames(Stack& stack, bool cautious) noexcept;

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
