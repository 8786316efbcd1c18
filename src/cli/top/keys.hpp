// SPDX-License-Identifier: Apache-2.0
// The keys of `gpupool top`.
#pragma once

#include <string>
#include <string_view>

#include "cli/top/choice.hpp"
#include "cli/top/hand.hpp"
#include "cli/top/process.hpp"

namespace gpupool::cli {

/// What has been typed so far: / begins a text, < and > turn the order, Enter opens the marked pool's
/// process, Escape closes it, h or ? asks for help, q leaves, others go to the process that is open, or to
/// the hand, and so do clicks and the wheel. Of the keys that a terminal sends as several bytes, the arrows
/// up and down mean k and j, PageUp and PageDown ctrl-B and ctrl-F, Home and End g and G, and the others
/// nothing.
class TopKeys {
 public:
  TopKeys(TopChoice& choice, TopHand& hand, TopProcess& process)
      : choice_(choice), hand_(hand), process_(process) {}
  /// False: the user wants to leave.
  bool press(std::string_view keys);
  /// What is being typed, what is chosen other than by default, or what was done; "" if nothing.
  std::string status() const;
  /// Help is to be shown instead of the table, until the next key.
  bool wants_help() const noexcept { return wants_help_; }

 private:
  /// What such a key has sent so far: ESC, ESC O, ESC [ and its parameters, or ESC [ M.
  enum class Sequence { kNone, kEscape, kShort, kLong, kOldMouse };

  bool continue_sequence(char key);
  void finish_sequence(char last);
  bool press_one(char key);
  void press_in_table(char key);
  void type(char key);

  TopChoice& choice_;
  TopHand& hand_;
  TopProcess& process_;
  bool is_typing_ = false;
  bool wants_help_ = false;
  std::string parameters_;  // of a sequence
  Sequence sequence_ = Sequence::kNone;
};

}  // namespace gpupool::cli
