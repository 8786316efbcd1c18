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
#include "cli/top/mark.hpp"

namespace gpupool::cli {

/// Where a row's pool is.
struct TopPlace {
  uint64_t pid = 0;
  size_t page = 0;
  uint64_t pool = 0;
  bool operator==(const TopPlace&) const = default;
};

/// Only processes that take commands obey (GPUPOOL_CONTROL=1); for others it says why not. Waits at most two
/// seconds for an answer.
class TopHand {
 public:
  /// Takes the rows as they are shown from now on. The mark stays on its pool, and goes when the pool does.
  void see(const std::vector<TopRow>& rows);
  const std::optional<TopPlace>& marked() const noexcept { return mark_.marked(); }
  bool is_marked(const TopRow& row) const noexcept { return marked() == place_of(row); }

  /// As Mark::first_shown, point and scroll. What moves the mark takes back a question.
  size_t first_shown(size_t room, size_t above) { return mark_.first_shown(room, above); }
  void point(size_t line);
  void scroll(int rows);

  /// Some keys move the mark, as Mark::move says; e trims the marked pool, once y has confirmed it; s writes
  /// a snapshot of it to a file, r records its process to a file until the next r. Other keys do nothing. A y
  /// counts only once rows have been seen since the e, so that no pasted text does both.
  void press(char key);
  /// What it asks, or has done, or could do; "" without a mark.
  std::string status() const;
  /// Ends the recordings that are under way. Returns a line for each.
  std::vector<std::string> finish();

 private:
  static TopPlace place_of(const TopRow& row) noexcept {
    return {row.process->pid, row.page, row.pool->number};
  }

  void forget_question();
  std::string act(char key);
  std::string trim() const;
  std::string write_snapshot() const;
  std::string record();
  std::string end_recording(uint64_t pid);

  Mark<TopPlace> mark_;
  std::string marked_name_;  // "pool 3 (weights) of 4711 (train.py)"
  bool asks_ = false;        // whether to trim
  bool was_asked_ = false;   // and the user could see it
  std::string said_;         // of the last key
  /// By process.
  std::map<uint64_t, std::unique_ptr<ProcessRecording>> recordings_;
};

}  // namespace gpupool::cli
