// SPDX-License-Identifier: Apache-2.0
// What a thread says it is working on: names attached to its mallocs.
#pragma once

#include <cstdint>

#include "base/status.hpp"

namespace gpupool::internal {

/// A name's number; 0: no tag. Names are never forgotten, so a number means one name for the life of the
/// process.
using TagId = uint16_t;

inline constexpr size_t kTagNameMax = 63;  // bytes
inline constexpr size_t kTagNames = 4096;  // including "" and kTooManyTags
inline constexpr uint32_t kTagDepth = 64;

/// The name for all further names once there are too many.
inline constexpr const char* kTooManyTags = "(other tags)";

/// Begins and ends a part of the calling thread's work. Throws std::bad_alloc.
Status push_tag(const char* name);
Status pop_tag() noexcept;

/// The innermost tag of the calling thread.
TagId current_tag() noexcept;

/// The name, which lives as long as the process; "" for no tag.
const char* tag_name(TagId tag) noexcept;

/// Whether any thread was ever inside a tag.
bool has_tags() noexcept;

/// Around fork.
void lock_tags() noexcept;
void unlock_tags() noexcept;

}  // namespace gpupool::internal
