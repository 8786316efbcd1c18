// SPDX-License-Identifier: Apache-2.0
// What is live at the end of a recording, and what grew, whoever freed it at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/recording/growth.hpp"
#include "cli/recording/recording.hpp"

namespace gpupool::cli {

/// Blocks of one call site under one tag; or those of a tag or a stream that grows though none of its call
/// sites does.
struct Leak {
  enum class Of : uint8_t { site, tag, stream };

  Of of = Of::site;
  uint32_t stack = 0;  // of a site
  uint32_t tag = 0;    // of a site or a tag
  uint64_t stream = 0;
  uint64_t bytes = 0;  // live at the end
  uint64_t blocks = 0;
  uint64_t first_ns = 0;  // when the oldest one that is live at the end was allocated
  Growth growth;

  bool has(const Happened& made) const noexcept;
  /// What is not given back when it should be: at the end, or before.
  uint64_t lost() const noexcept { return bytes > growth.bytes ? bytes : growth.bytes; }
};

/// `log_loss (train.py:104) (tag "history")`.
std::string name_of_site(const Recording& recording, uint32_t stack, uint32_t tag);

/// The same of a site, or "what is allocated under the tag ...".
std::string name_of(const Recording& recording, const Leak& leak);

/// Whether there are marks, or mallocs, enough to say what grows.
bool can_judge_growth(const Recording& recording);

/// The sites that have live blocks at the end or grew, and tags and streams that grew, of one pool or of all:
/// what grows first, then the largest.
std::vector<Leak> find_leaks(const Recording& recording, std::optional<uint64_t> pool = {});

}  // namespace gpupool::cli
