// SPDX-License-Identifier: Apache-2.0
#include "os/library.hpp"

namespace gpupool::internal::os {

bool find_other_copy(const char*, const void*, std::string&, std::string&) noexcept {
  return false;
}

}  // namespace gpupool::internal::os
