// SPDX-License-Identifier: Apache-2.0
// With data, a mapping is a view of memory in the place of reserved addresses. Windows has such views from
// version 1803 on; nobody has asked for them yet.
#include "device/sim/backing.hpp"

namespace gpupool::internal {

Status check_host_backing() {
  return fail(GPUPOOL_ERROR_UNAVAILABLE,
              "simulated device: there is no data on Windows: GPUPOOL_SIM=data=0 does without");
}

std::unique_ptr<SimBacking> make_host_backing() {
  return nullptr;  // the check has failed
}

}  // namespace gpupool::internal
