// SPDX-License-Identifier: Apache-2.0
#include "pool/rules/group_limit.hpp"

namespace gpupool::internal {

GroupLimit::~GroupLimit() {
  (void)member_->change_guarantee(-static_cast<int64_t>(terms_.guaranteed));
}

}  // namespace gpupool::internal
