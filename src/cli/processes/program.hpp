// SPDX-License-Identifier: Apache-2.0
// A program before it is started: what its file is, and the libraries that are loaded into it.
#pragma once

#include <string>

namespace gpupool::cli {

/// As a shell finds a program; what is not there stays as it is.
std::string path_of_program(const std::string& name);

/// Why nothing can be loaded into the program of this name, or the environment may not reach it, in words
/// that go on from its name; "": nothing is against it. Also "" if there is no such program.
std::string why_out_of_reach(const std::string& name);

inline constexpr const char* kInjectedLibrary = "libgpupool_inject.so";
inline constexpr const char* kHooksLibrary = "libgpupool_audit.so";

/// The absolute path of one of these, beside libgpupool or this command. Throws InputError if it is not
/// there, or others could have changed it.
std::string find_library_of_ours(const char* name);

/// Why the loader would not tell libgpupool_audit.so all, in words that go on from "hooks"; "": it does.
std::string why_no_hooks();

}  // namespace gpupool::cli
