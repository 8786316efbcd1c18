// SPDX-License-Identifier: Apache-2.0
// Reads what is whole of a file that was damaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/unpacker.hpp"

namespace gpupool::cli {

/// A damaged part of a file.
struct Gap {
  size_t at;         // of Salvaged::text
  uint64_t lost;     // bytes of the file; 0: unknown
  std::string what;  // "file: at byte N: what is wrong"
};

struct Salvaged {
  std::string text;
  std::vector<Gap> gaps;
};

/// How a file to be salvaged begins: if it is not packed; and each gzip member but the first.
struct Begins {
  std::string_view plain;
  std::string_view member;
};

/// What a file unpacks to, without its damaged gzip members: each that is used is as its checksum says.
/// If none is whole behind a damaged one, the file may have been cut, and what can be unpacked of that one is
/// used; so it is if the file has no other one, though what follows the damage may be wrong. `fits` throws if
/// so many bytes, packed or not, are too many. Throws InputError as read_text does, but DamagedFile never.
Salvaged salvage_file(const std::string& path, Begins begins, const std::function<void(uint64_t)>& fits,
                      TextFile how);

}  // namespace gpupool::cli
