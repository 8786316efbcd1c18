// SPDX-License-Identifier: Apache-2.0
// Libraries that are loaded at run time.
#pragma once

#include <string>

namespace gpupool::internal::os {

/// What NVIDIA's driver is called here.
extern const char* const kCudaLibrary;

/// Null, and why in `reason`, if there is no such library. Its symbols stay out of libraries loaded later.
void* open_library(const char* name, const char*& reason) noexcept;
void* find_symbol(void* library, const char* name) noexcept;
/// In the program or any library that it was linked with; null: nowhere.
void* find_in_process(const char* name) noexcept;

/// Whether a loaded module other than the one where `own` lies exports a function under this name, and which
/// files the two are of. Sees no copies that hide their functions, and only on Linux any.
bool find_other_copy(const char* name, const void* own, std::string& own_file, std::string& file) noexcept;

}  // namespace gpupool::internal::os
