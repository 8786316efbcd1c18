// SPDX-License-Identifier: Apache-2.0
// Where a malloc was called from: addresses of native code, and names from the caller's own language.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.hpp"

namespace gpupool::internal {

/// A stack's number; 0: none. A number means one stack for the life of the process.
using StackId = uint32_t;

inline constexpr size_t kStacks = 16384;

/// Aligned so that clang reads one of them atomically by itself.
struct alignas(2) StackKinds {
  bool native = false;
  bool language = false;
};

/// Sets the function that names frames in the caller's language; fn null: none.
void set_stack_fn(gpupool_stack_fn_t fn, void* user) noexcept;

/// Those of the wanted kinds for which there is something to take.
StackKinds kinds_to_take(StackKinds wanted) noexcept;

/// The number of the calling thread's stack; 0 if it has none, there is no memory, or there are already
/// kStacks. Calls the function of set_stack_fn, and takes locks of the loader: call it with no lock held.
StackId take_stack(StackKinds kinds) noexcept;

/// A line for each frame, innermost first: those of the language, then native ones without the library's own.
/// Asks the loader for names: call it with no lock held. Throws std::bad_alloc.
std::string describe_stack(StackId stack);

/// The frame that represents the malloc: the first line.
std::string describe_site(StackId stack);

/// Around fork.
void lock_stacks() noexcept;
void unlock_stacks() noexcept;

}  // namespace gpupool::internal
