// SPDX-License-Identifier: Apache-2.0
// Draws on a terminal for a while, and then leaves it as it was, also if the program crashes.
#pragma once

#include <signal.h>
#include <termios.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace gpupool::cli {

struct TerminalSize {
  size_t columns = 80;
  size_t lines = 24;
};

/// Whether standard output is a terminal that can be drawn on.
bool is_screen();
/// The size of the terminal that standard output is.
TerminalSize terminal_size();

/// While it lives, the terminal shows a page of its own, and wait() gets keys, the mouse and signals. Only
/// one may live.
class Screen {
 public:
  Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  /// Replaces what is shown. If lines do not fit, the last one says how many. False: the terminal is gone.
  bool draw(const std::vector<std::string>& lines);

  /// Waits until the time is over, a key is pressed, or the terminal's size changes. False: it has to end.
  bool wait(double seconds);
  /// What was typed while it waited.
  std::string take_keys() { return std::exchange(keys_, {}); }

 private:
  static void leave_and_crash(int number);
  void enter();
  void leave() noexcept;
  bool read_keys();

  bool has_keys_ = false;
  std::string keys_;
  termios before_{};
  sigset_t mask_{};  // while it waits
};

}  // namespace gpupool::cli
