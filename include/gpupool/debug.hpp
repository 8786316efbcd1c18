// SPDX-License-Identifier: Apache-2.0
// Finding misuse of memory, for C++20: see docs/debugging.md. Since 0.2.
//
//     gpupool::set_debug("poison,canary,quarantine=64MiB");
//     gpupool::Pool pool;
//     ...
//     if (const auto damage = gpupool::check_damage(pool); damage.count > 0) std::puts(damage.text.c_str());
//
// Errors are exceptions, as in gpupool.hpp.
#pragma once

#include <cstdint>
#include <string>

#include "gpupool/gpupool.hpp"

namespace gpupool {
inline namespace v0 {

/// Sets the debug modes of the pools that are created from now on: a list with commas; "": none.
inline void set_debug(const std::string& modes) {
  check(gpupool_set_debug(modes.c_str()));
}

/// Findings since the pool was created: bytes that were written where no live block is.
struct Damage {
  uint64_t count = 0;
  /// The last findings in words.
  std::string text;
};

/// Looks at the blocks of a pool with debug modes, and waits until the GPU has done so.
[[nodiscard]] inline Damage check_damage(Pool& pool) {
  Damage damage;
  // Room for the sixteen findings that the library keeps, with ordinary stacks; longer text ends there.
  damage.text.resize(size_t{16} << 10);
  check(gpupool_check(pool.handle(), &damage.count, damage.text.data(), damage.text.size()));
  damage.text.resize(damage.text.find('\0'));
  return damage;
}

/// What work may do with a block.
enum class Access : int32_t {
  write = GPUPOOL_ACCESS_WRITE,
  read = GPUPOOL_ACCESS_READ,
  none = GPUPOOL_ACCESS_NONE,
};

/// Sets what work may do with a block from now on, queued work included. Only for a block that shares no
/// chunk.
inline void protect(Pool& pool, gpupool_ptr_t ptr, Access access) {
  check(gpupool_protect(pool.handle(), ptr, static_cast<gpupool_access_t>(access)));
}

/// Says in words what is or was at an address, in any pool of this process.
[[nodiscard]] inline std::string why(gpupool_ptr_t address) {
  return text_of([&](char* text, size_t capacity, size_t* length) {
    return gpupool_why(address, text, capacity, length);
  });
}

}  // namespace v0
}  // namespace gpupool
