// SPDX-License-Identifier: Apache-2.0
// Between the sources of this room: what Linux and macOS have in common, and where they differ in it.
#pragma once

#include <pthread.h>

namespace gpupool::internal::os {

/// Names a thread that has just been started, where another thread can.
void name_thread(pthread_t thread, const char* name) noexcept;

}  // namespace gpupool::internal::os
