// SPDX-License-Identifier: Apache-2.0
// Between the sources of this room: what Linux and macOS have in common, and where they differ in it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/stack.hpp"

namespace gpupool::internal::os {

/// Sets the frames to those that the compiler's own unwinder finds.
void unwind(Stack& stack) noexcept;
/// The same, and fast for a stack that the thread took before: those from the frame on that returns to the
/// word behind `base`, where a function that is still running saved its caller's frame pointer.
void take_again(const uintptr_t* base, Stack& stack) noexcept;

inline constexpr uint64_t kNoKey = ~uint64_t{0};
/// As at_thread_end, for one function for each key, which begins as kNoKey.
void at_thread_end(std::atomic<uint64_t>& key, void (*run)(void*), void* data) noexcept;

/// Names a thread that has just been started, where another thread can.
void name_thread(pthread_t thread, const char* name) noexcept;

}  // namespace gpupool::internal::os
