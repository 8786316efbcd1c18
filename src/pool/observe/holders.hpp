// SPDX-License-Identifier: Apache-2.0
// Who holds a pool's memory, as far as its samples tell. Call these with no lock held, since they ask the
// loader for names. They throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace gpupool::internal {

class Sampler;

/// As gpupool_holder_t, but with whole texts.
struct Holder {
  uint64_t live_bytes = 0;
  double variance = 0;  // of live_bytes as an estimate
  uint64_t samples = 0;
  uint64_t oldest_ns = 0;
  uint64_t newest_ns = 0;
  std::string tag;
  std::string stack;
};

/// Live bytes by call site and tag, the largest first.
std::vector<Holder> find_holders(const Sampler& sampler);

/// "Most is held by:", and a line for each: "  3.00 GiB of "kv cache" from load (serve.py:12), the oldest for
/// 12.0 s", with as many digits as its estimate has. "": nobody is known.
std::string largest_holders(const Sampler& sampler, size_t count);

/// Adds who holds most to the message of a malloc that has failed; returns the status.
Status name_holders(const Sampler& sampler, Status status);

}  // namespace gpupool::internal
