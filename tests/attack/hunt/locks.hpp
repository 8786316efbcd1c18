// SPDX-License-Identifier: Apache-2.0
// How many mutexes this process has taken: the program's own functions take the place of the C library's.
#pragma once

#include <cstdint>

namespace hunt {

/// 0 for ever where a sanitizer has functions of its own.
uint64_t locks_taken();
bool counts_locks();

}  // namespace hunt
