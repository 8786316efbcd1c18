// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpupool::internal {

/// Permission to unmap memory, or to give it to the device. Only Retention makes one, and the device takes
/// memory back for nothing else.
class Departure {
 private:
  friend class Retention;
  Departure() noexcept = default;
};

}  // namespace gpupool::internal
