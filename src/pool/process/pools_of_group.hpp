// SPDX-License-Identifier: Apache-2.0
// The pools of this process that share with other processes.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "device/device.hpp"
#include "pool/rules/group_limit.hpp"
#include "share/member.hpp"

namespace gpupool::internal {

/// Makes this process a member of a group; its pools answer what the other members ask. UNAVAILABLE: it
/// cannot be one. OVER_LIMIT: the group cannot guarantee that much.
Status join_group(const share::Place& place, const ShareTerms& terms, Device& device,
                  std::unique_ptr<GroupLimit>& group);

}  // namespace gpupool::internal
