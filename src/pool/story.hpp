// SPDX-License-Identifier: Apache-2.0
// What is known of an address, in words.
#pragma once

#include <string>

#include "pool/book.hpp"
#include "pool/inspector.hpp"

namespace gpupool::internal {

class Pool;

/// "block 17 of 1000 bytes (tag "grads"), allocated by f (m.py:3)", and by whom it was freed.
std::string describe_life(const BlockRecord& life);

/// "12 bytes beyond the end of block 17 ... were written, from +1000 on: 00 00 80 3f; allocated by ...".
std::string describe_finding(const Finding& finding);

/// Adds what was at an address to the thread's last error; returns the status.
Status tell_story_of(Pool& pool, Address address, Status status);

}  // namespace gpupool::internal
