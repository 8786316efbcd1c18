// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace gpupool::internal::os {

/// Zeroed memory of the process's own whose pages are all there, on the calling thread's node unless the
/// thread has a policy of its own, and in huge pages where the system gives them quickly. Neither children of
/// fork nor core dumps have it. Null where it cannot be had, or the system has no such thing.
void* map_pages(size_t bytes) noexcept;
/// The same with pages that come when they are first touched, for children too. Every system has it.
void* map_untouched(size_t bytes) noexcept;
void unmap_pages(void* address, size_t bytes) noexcept;

}  // namespace gpupool::internal::os
