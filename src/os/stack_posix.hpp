// SPDX-License-Identifier: Apache-2.0
// How stacks are taken on Linux and macOS.
#pragma once

#include <cstdint>

#include "os/stack.hpp"

namespace gpupool::internal::os {

/// Sets the frames to those that the compiler's own unwinder finds.
void unwind(Stack& stack) noexcept;
/// The same, and fast for a stack that the thread took before: those from the frame on that returns to the
/// word behind `base`, where a function that is still running saved its caller's frame pointer.
void take_again(const uintptr_t* base, Stack& stack) noexcept;

}  // namespace gpupool::internal::os
