// SPDX-License-Identifier: Apache-2.0
// CUPTI, which tells of calls of the driver. It is never linked: the program's copy is used where it has one.
#pragma once

#include <string>

#include "frameworks/inject/cupti_types.hpp"

namespace gpupool::inject {

/// Has `callback` called with `user` for the watched functions and for the ends of contexts, from now on. In
/// the middle of cuInit is the time for it. Returns why it cannot be, in words; "": it is.
std::string subscribe(cupti::CUpti_CallbackFunc callback, void* user);

}  // namespace gpupool::inject
