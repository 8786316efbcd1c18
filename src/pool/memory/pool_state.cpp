// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/pool_state.hpp"

#include <utility>

namespace gpupool::internal {

PoolState::PoolState(std::shared_ptr<Device> its_device, const PoolOptions& its_options)
    : options(its_options),
      device(std::move(its_device)),
      streams(device, space, options.capture_aware),
      pending(streams) {
  if (options.max_chunk != 0) sizer.max_chunk = options.max_chunk;
  if (options.idle_ns != 0) streams.ask_always();
  (void)ledger.budget().set_limit(options.limit, options.ceiling);
}

PoolState::PoolState(Child, PoolState& parent)
    : options(parent.options),
      group{parent.group.limit, false},
      device(parent.device.shared()),
      sizer(parent.sizer),
      ledger(parent.ledger.budget().shared()),
      streams(device, space, false, parent.streams.announcements()),
      pending(streams) {
  options.capture_aware = false;
  options.is_child = true;
  options.idle_ns = 0;
  options.debug = {};
}

}  // namespace gpupool::internal
