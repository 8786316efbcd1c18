// SPDX-License-Identifier: Apache-2.0
// What the command needs of the system, beyond the C++ library.
#pragma once

#include <cstdio>
#include <ctime>
#include <string>

namespace gpupool::cli {

/// Once, before anything is opened, read or written: standard input and output are bytes, and no other file
/// is one of the three. And large memory goes back to the system when it is freed.
void prepare_process() noexcept;

bool is_terminal(std::FILE* file) noexcept;

/// A new file that only its owner may use; an existing one, or a link, is refused. Below 0, with errno.
int create_new(const char* path) noexcept;
void close_file(int file) noexcept;
/// As create_new, under a free name: `path` ends with XXXXXX, which becomes part of the name.
int create_unique(std::string& path) noexcept;
/// Gives a file that create_unique made to all users whom the umask allows it.
void let_umask_decide(std::FILE* file) noexcept;
/// Opens what is there, a pipe or a device, to write to it. Waits for a pipe's reader, for five seconds at
/// most; null, with errno ENXIO: there is none.
std::FILE* open_to_write(const char* path) noexcept;
/// Renames in one step, also to a name that is taken. False, with errno.
bool replace_file(const char* from, const char* to) noexcept;

std::tm local_time(std::time_t moment) noexcept;

}  // namespace gpupool::cli
