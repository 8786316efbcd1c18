// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupool::internal::os {

uint64_t process_id() noexcept;
/// The user that the process acts for; 0 where users have no numbers.
uint64_t user_id() noexcept;
/// The program's name without its folder. Lives as long as the process.
const char* program_name() noexcept;
/// The arguments, each followed by a zero, as many as there is room for.
void read_command_line(char* text, size_t room) noexcept;

/// All variables, as "NAME=VALUE", and a null at the end.
const char* const* environment() noexcept;
/// As getenv, but null in a program that runs with more rights than whoever started it.
const char* trusted_environment(const char* name) noexcept;

/// Ends the process as `kill -9` does: nothing is flushed, undone or told.
[[noreturn]] void kill_process() noexcept;

using ForkHook = void (*)();
/// Calls the hooks around every fork from now on; never where there is no fork.
void watch_fork(ForkHook before, ForkHook in_parent, ForkHook in_child) noexcept;

/// Keeps this library loaded until the process ends, where the linker has no option for that.
void stay_loaded() noexcept;

}  // namespace gpupool::internal::os
