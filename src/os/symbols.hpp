// SPDX-License-Identifier: Apache-2.0
// Names of functions that the loader does not know, from the files of their modules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "os/stack.hpp"

namespace gpupool::internal::os {

/// A program exports hardly any of its functions, and nothing that is local to a file, but unless it was
/// stripped its file lists them all: those of C, C++, Rust and Go alike. A file is read when a name in it is
/// first asked for, and its list stays: 16 bytes a function, and the names. Not for several threads at once.
class Symbols {
 public:
  /// Sets the function of an origin that has none. Nothing changes if the file of the module does not say, is
  /// gone, or is no more the one that was loaded. Throws std::bad_alloc.
  void complete(Origin& origin, const void* code);

 private:
  struct Function {
    uintptr_t begin;  // as in the file: where the module was loaded comes on top
    uint32_t bytes;
    uint32_t name;  // where in `names`
  };
  struct Module {
    std::string path;
    uintptr_t offset;                 // of its addresses in memory
    std::vector<Function> functions;  // by their begin
    std::string names;
  };

  static void read(Module& module, const void* head);
  const Module& know(const std::string& path, uintptr_t offset, const void* head);

  std::vector<Module> modules_;
};

}  // namespace gpupool::internal::os
