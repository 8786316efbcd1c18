// SPDX-License-Identifier: Apache-2.0
#include "abi/options.hpp"
#include "base/parse.hpp"

namespace gpupool::internal::abi {

Status control_from_environment() {
  bool is_wanted = false;
  if (const Status status = read_switch("GPUPOOL_CONTROL", is_wanted); status != kSuccess) return status;
  if (!is_wanted) return kSuccess;
  return fail(GPUPOOL_ERROR_UNSUPPORTED,
              "GPUPOOL_CONTROL is set, and only on Linux do processes take commands");
}

}  // namespace gpupool::internal::abi
