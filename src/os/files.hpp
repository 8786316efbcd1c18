// SPDX-License-Identifier: Apache-2.0
// What Linux and macOS have of files, each in its own way. Results are as system calls have them: below 0, or
// false, with errno.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupool::internal::os {

/// What mappings are whole multiples of, at least.
extern const uint64_t kPageBytes;

/// A file without a name that takes room only where it is written to; -1: none.
int make_sparse_file(uint64_t bytes) noexcept;
/// Gives the room of a part back; it then reads as zeros.
void punch_hole(int file, uint64_t offset, uint64_t bytes) noexcept;

/// A descriptor that the library keeps, in a program that may close any of them and have a file of its own
/// under the number. So it is also known by what it leads to.
struct KeptFile {
  int number = -1;
  uint64_t device = 0;
  uint64_t inode = 0;
};

/// Keeps an open descriptor under a number above those of standard input, output and error: a program that
/// has closed these must not print into it. False: that fails, or the number is below 0; then it is closed.
bool keep_file(int number, KeptFile& file) noexcept;
/// Whether the number still leads to the file.
bool is_kept(const KeptFile& file) noexcept;
/// Closes it, unless the number now leads to another file.
void close_kept(KeptFile& file) noexcept;

/// Whether this process's files may have so many bytes. Asked before a file grows: exceeding RLIMIT_FSIZE
/// does not only fail, it sends SIGXFSZ, which ends the program.
bool may_be_as_large(uint64_t bytes) noexcept;

/// Adds to the end of a file, which is made if there is none, for its owner only. Also on Windows. False:
/// none or not all of the text is there.
bool append_to_file(const char* path, const char* text, size_t bytes) noexcept;

// These three are also on Windows.

/// Renames a file; one that has the new name goes. False, with errno: nothing has changed.
bool replace_file(const char* from, const char* to) noexcept;
/// Whether anything has this name, even a symbolic link that leads nowhere.
bool is_there(const char* path) noexcept;
/// The path from the root. False, with errno: there is no room for it.
bool whole_path(const char* path, char* whole, size_t room) noexcept;

/// Opens the file behind a descriptor anew, to read and write; -1: the system does not.
int open_again(int file) noexcept;
/// Marks a part as in use, until the last copy of this descriptor, and the last mapping of it, is gone.
/// Others may do so too. False: the system cannot.
bool hold_part(int file, uint64_t offset, uint64_t bytes) noexcept;
/// Whether anybody who opened the file anew holds any of a part.
bool is_held(int file, uint64_t offset, uint64_t bytes) noexcept;

/// Takes room on the disk, from `offset` on, which is the file's end. A signal does not end it.
bool allocate_room(int file, uint64_t offset, uint64_t bytes) noexcept;

/// The path of an open file; false: none is known.
bool path_of(int file, char* path, size_t room) noexcept;

}  // namespace gpupool::internal::os
