// SPDX-License-Identifier: Apache-2.0
// The page on which the pools of this process show figures to other processes: a memfd that goes with the
// process.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/status.hpp"
#include "wire/stats_page.hpp"

namespace gpupool::internal::shown {

using wire::stats::Figures;
using wire::stats::Slot;
using wire::stats::SlotState;

/// Copies as much of a text as there is room for, and adds a 0.
template <size_t Size>
void set_text(char (&field)[Size], std::string_view text) noexcept {
  const size_t length = text.copy(field, Size - 1);
  field[length] = '\0';
}

/// Replaces what a slot shows. One thread at a time.
void write(Slot& slot, SlotState state, const Figures& figures) noexcept;

/// Reads GPUPOOL_STATS: 1, the default, or 0, for no page.
Status read_switch();

// The page of this process. It is made for the first pool, and stays until the process ends. The registry's
// lock guards all of this.

/// Opens a slot for a pool; null if nothing is shown: not wanted, refused by the system, or too many pools.
Slot* open_slot() noexcept;
/// The pool has ended. Null: it was not shown.
void close_slot(Slot* slot) noexcept;
/// In a child after fork: the page is its parent's.
void forget_page() noexcept;

}  // namespace gpupool::internal::shown
