// SPDX-License-Identifier: Apache-2.0
// Only Linux shows other processes what a process does, in /proc: elsewhere there is no page, and no control.
#include "watch/control.hpp"
#include "watch/stats_page.hpp"

namespace gpupool::internal {
namespace shown {

void write(Slot&, SlotState, const Figures&) noexcept {}

Status read_switch() {
  return kSuccess;
}

Slot* open_slot() noexcept {
  return nullptr;
}

void close_slot(Slot*) noexcept {}

void forget_page() noexcept {}

}  // namespace shown

namespace control {

void lock() noexcept {}

void unlock() noexcept {}

void forget() noexcept {}

}  // namespace control
}  // namespace gpupool::internal
