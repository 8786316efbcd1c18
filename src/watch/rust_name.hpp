// SPDX-License-Identifier: Apache-2.0
// Names of functions as Rust's compiler writes them into files.
#pragma once

#include <string>
#include <string_view>

namespace gpupool::internal {

/// The path that a programmer writes: without hashes, what stands in <> as "<..>" unless it is the path of an
/// impl's type, a closure as "{closure#0}". Empty: it is no such name, or its meaning is unknown here. Throws
/// std::bad_alloc.
std::string rust_name(std::string_view symbol);

}  // namespace gpupool::internal
