// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/retention.hpp"

namespace gpupool::internal {

std::optional<Departure> Retention::release(const Chunk& chunk, Cause cause) const {
  if (keeps_all(cause) || chunk.users != 0 || chunk.old_mappings != 0 || chunk.asleep) return std::nullopt;
  if (chunk.heap == nullptr) return Departure();  // it is at no address
  StreamState& state = static_cast<StreamHeap*>(chunk.heap)->state();
  if (state.capture != 0 || !state.order.passed(chunk.epoch)) return std::nullopt;
  return Departure();
}

std::optional<Departure> Retention::unmap(StreamState& state, uint64_t epoch, uint64_t capture,
                                          Cause cause) const {
  if (captures_.hold_all() || (options_.is_child && cause == Cause::sleep) || is_asleep_for(cause))
    return std::nullopt;
  if (capture != 0 && captures_.may_run(capture)) return std::nullopt;
  if (!state.order.passed(epoch)) return std::nullopt;
  return Departure();
}

}  // namespace gpupool::internal
