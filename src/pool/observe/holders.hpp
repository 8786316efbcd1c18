// SPDX-License-Identifier: Apache-2.0
// Who holds a pool's memory, as far as its samples tell. Call these with no lock held, since they ask the
// loader for names. They throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "gpupool/gpupool.h"

namespace gpupool::internal {

class Sampler;

/// Live bytes by call site and tag, the largest first.
std::vector<gpupool_holder_t> find_holders(const Sampler& sampler);

/// "Most is held by:", and a line for each: "  3.00 GiB of "kv cache" from load (serve.py:12), the oldest for
/// 12.0 s". "": nobody is known.
std::string largest_holders(const Sampler& sampler, size_t count);

/// Adds who holds most to the message of a malloc that has failed; returns the status.
Status name_holders(const Sampler& sampler, Status status);

}  // namespace gpupool::internal
