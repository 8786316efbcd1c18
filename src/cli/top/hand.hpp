// SPDX-License-Identifier: Apache-2.0
// What the user of `gpupool top` does to a pool by a key: mark it, trim it, list it, record its process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/processes/process_recording.hpp"
#include "cli/top/choice.hpp"

namespace gpupool::cli {

/// Keys for a page, as `less` has them.
inline constexpr char kPageUp = '\x02';    // ctrl-B
inline constexpr char kPageDown = '\x06';  // ctrl-F

/// Only processes that take commands obey (GPUPOOL_CONTROL=1); for others it says why not. Waits at most two
/// seconds for an answer.
class TopHand {
 public:
  /// Takes the rows as they are shown from now on. The mark stays on its pool, and goes when the pool does.
  void see(const std::vector<TopRow>& rows);
  bool has_mark() const noexcept { return marked_.has_value(); }
  bool is_marked(const TopRow& row) const noexcept { return marked_ == place_of(row); }

  /// Which row is to be shown first where so many fit, with so many lines above them: the marked one is in
  /// view.
  size_t first_shown(size_t room, size_t above);

  /// k and j move the mark up and down, ctrl-B and ctrl-F by as many rows as are shown, g and G to the first
  /// row and the last; e trims the marked pool, once y has confirmed it; s writes a snapshot of it to a file,
  /// r records its process to a file until the next r. Other keys do nothing. A y counts only once rows have
  /// been seen since the e, so that no pasted text does both.
  void press(char key);
  /// Marks what is shown in a line of the screen, of which the first is 1.
  void point(size_t line);
  /// Shows other rows: so many further down, or up. The mark comes along if it would be out of view.
  void scroll(int rows);
  /// What it asks, or has done, or could do; "" without a mark.
  std::string status() const;
  /// Ends the recordings that are under way. Returns a line for each.
  std::vector<std::string> finish();

 private:
  struct Place {
    uint64_t pid = 0;
    size_t page = 0;
    uint64_t pool = 0;
    bool operator==(const Place&) const = default;
  };
  static Place place_of(const TopRow& row) noexcept { return {row.process->pid, row.page, row.pool->number}; }

  size_t marked_row() const;
  void mark(size_t row);
  void move(char key);
  std::string act(char key);
  std::string trim() const;
  std::string write_snapshot() const;
  std::string record();
  std::string end_recording(uint64_t pid);

  std::vector<Place> places_;  // of the rows, from the first to the last
  std::optional<Place> marked_;
  std::string marked_name_;  // "pool 3 (weights) of 4711 (train.py)"
  size_t first_ = 0;         // of the rows, that is shown
  size_t room_ = 1;
  size_t above_ = 0;
  bool asks_ = false;       // whether to trim
  bool was_asked_ = false;  // and the user could see it
  std::string said_;        // of the last key
  /// By process.
  std::map<uint64_t, std::unique_ptr<ProcessRecording>> recordings_;
};

}  // namespace gpupool::cli
