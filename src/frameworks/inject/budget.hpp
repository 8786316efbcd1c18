// SPDX-License-Identifier: Apache-2.0
// What a group of processes that share a device leaves over.
#pragma once

#include <gpupool/gpupool.h>

#include <cstdint>
#include <string>

namespace gpupool::inject {

class Budget {
 public:
  /// Loads libgpupool from beside this library. Without it, or with group "", nothing limits.
  explicit Budget(std::string group);

  bool is_there() const { return info_ != nullptr; }
  /// UINT64_MAX while there is no such group.
  uint64_t room(int device) const;

 private:
  std::string group_;
  decltype(&gpupool_share_info) info_ = nullptr;
};

}  // namespace gpupool::inject
