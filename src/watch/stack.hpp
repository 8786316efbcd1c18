// SPDX-License-Identifier: Apache-2.0
// Where a malloc was called from: addresses of native code, and words of the caller's own language.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.hpp"

namespace gpupool::internal {

/// A stack's number; 0: none. A number stands for one stack as long as the process lives.
using StackId = uint32_t;

inline constexpr size_t kStacks = 16384;

struct StackKinds {
  bool native = false;
  bool language = false;
};

/// Who tells the frames of the caller's language; fn null: nobody.
void set_stack_fn(gpupool_stack_fn_t fn, void* user) noexcept;

/// Those of the wanted kinds that there is something to take of.
StackKinds kinds_to_take(StackKinds wanted) noexcept;

/// The number of the calling thread's stack; 0 where it has none, there is no memory, or there are kStacks
/// already. Calls the function of set_stack_fn, and takes locks of the loader: call it with no lock held.
StackId take_stack(StackKinds kinds) noexcept;

/// A line for each frame, innermost first: those of the language, then native ones without the library's own.
/// Asks the loader for names: call it with no lock held. Throws std::bad_alloc.
std::string describe_stack(StackId stack);

/// The frame that stands for the malloc: the first line.
std::string describe_site(StackId stack);

/// Around fork.
void lock_stacks() noexcept;
void unlock_stacks() noexcept;

}  // namespace gpupool::internal
