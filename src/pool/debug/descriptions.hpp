// SPDX-License-Identifier: Apache-2.0
// What is known of an address, in words.
#pragma once

#include <string>

#include "pool/debug/block_history.hpp"
#include "pool/debug/inspector.hpp"

namespace gpupool::internal {

/// "block 17 of 1000 bytes (tag "grads"), allocated by f (m.py:3)", and by whom it was freed.
std::string describe_life(const BlockRecord& life);

/// "12 bytes beyond the end of block 17 ... were written, from +1000 on: 00 00 80 3f; allocated by ...".
std::string describe_finding(const Finding& finding);

}  // namespace gpupool::internal
