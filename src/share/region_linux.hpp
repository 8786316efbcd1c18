// SPDX-License-Identifier: Apache-2.0
// What files of regions have in common, whether a folder has them or a broker.
#pragma once

#include "share/region.hpp"

namespace gpupool::internal::share {

/// UNAVAILABLE: the region is, or does, what the words say.
Status unusable(const Place& place, const char* what);
/// UNAVAILABLE: a system call has failed, with errno.
Status failed(const Place& place, const char* call);

/// What a new region begins with.
void write_header(const Place& place, Header& header) noexcept;
/// Checks the size, and what it begins with.
Status check_contents(const Place& place, const File& file);

}  // namespace gpupool::internal::share
