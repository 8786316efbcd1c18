// SPDX-License-Identifier: Apache-2.0
// What `gpupool top` shows of one moment: a table for people, JSON for programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/top/choice.hpp"
#include "cli/top/look.hpp"
#include "cli/top/process.hpp"

namespace gpupool::cli {

/// How a table is drawn.
struct TopStyle {
  size_t width = 0;    // of the terminal, into which columns must fit; 0: as wide as needed
  std::string status;  // a line for the user; "": none
  std::function<bool(const TopRow&)> is_marked;  // null: no row is
  size_t first = 0;                              // of the rows, that is shown
  size_t room = SIZE_MAX;                        // as many rows are shown; what is not is counted
};

/// How many lines are above the rows.
size_t lines_above_rows(const Look& now, const TopStyle& style);

/// How many rows fit into so many lines, beside what is above them and the line that counts what is not
/// shown.
size_t room_for_rows(const Look& now, const TopStyle& style, size_t lines);

/// The keys of `gpupool top`.
std::vector<std::string> draw_help();

/// The lines of a table of these rows. `before`: the look that rates are taken from; null: counts since each
/// pool began instead.
std::vector<std::string> draw_look(const Look& now, const Look* before, const std::vector<TopRow>& rows,
                                   const TopStyle& style);

/// A line for each GPU and each process. `asked`: what the only process has answered; null: it was not asked.
void print_look_as_json(const Look& now, const AskedHolders* asked = nullptr);

}  // namespace gpupool::cli
