// SPDX-License-Identifier: Apache-2.0
#include "cli/top/terminal.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include "cli/base/signals.hpp"

namespace gpupool::cli {
namespace {

constexpr std::initializer_list<int> kLeaving = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
constexpr std::string_view kEnterScreen = "\x1b[?1049h\x1b[?25l";  // a page of its own, and no cursor
constexpr std::string_view kLeaveScreen = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kMouseOn = "\x1b[?1000h\x1b[?1006h";  // its buttons, as SGR writes them
constexpr std::string_view kMouseOff = "\x1b[?1006l\x1b[?1000l";

volatile std::sig_atomic_t wants_to_leave = 0;
volatile std::sig_atomic_t wants_to_pause = 0;
std::atomic<Screen*> screen_on = nullptr;  // what a crash has to leave; a crash may come at any time

void note_leaving(int) {
  wants_to_leave = 1;
}
void note_pause(int) {
  wants_to_pause = 1;
}
void note_size(int) {}  // it ends the wait

bool write_all(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t count = write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

/// Whoever has a handler of their own, as sanitizers do, keeps it.
void handle_crash(int number, void (*handler)(int)) {
  struct sigaction before {};
  if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
    handle_signals({number}, handler);
}

}  // namespace

bool is_screen() {
  const char* const kind = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && kind != nullptr && *kind != '\0' && std::strcmp(kind, "dumb") != 0;
}

TerminalSize terminal_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

Screen::Screen() : has_keys_(isatty(STDIN_FILENO) == 1) {
  if (has_keys_ && tcgetattr(STDIN_FILENO, &before_) != 0) has_keys_ = false;
  // Signals come while wait() waits, and at no other time, so that none is missed.
  handle_signals(kLeaving, note_leaving);
  handle_signals({SIGTSTP}, note_pause);
  handle_signals({SIGWINCH}, note_size);
  for (const int number : kCrashes) handle_crash(number, leave_and_crash);
  mask_ = block_signals(kLeaving);
  (void)block_signals({SIGTSTP, SIGWINCH});
  for (const int number : kLeaving) sigdelset(&mask_, number);
  enter();
}

Screen::~Screen() {
  leave();
}

/// Does only what a signal handler may.
void Screen::leave_and_crash(int number) {
  if (Screen* const screen = screen_on.load()) screen->leave();
  (void)std::signal(number, SIG_DFL);
  (void)raise(number);  // it comes when this handler has returned
}

void Screen::enter() {
  screen_on = this;
  if (has_keys_) {
    termios now = before_;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &now);
  }
  (void)write_all(kEnterScreen);
  if (has_keys_) (void)write_all(kMouseOn);
}

void Screen::leave() noexcept {
  if (has_keys_) (void)write_all(kMouseOff);
  (void)write_all(kLeaveScreen);
  if (has_keys_) (void)tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  screen_on = nullptr;
}

bool Screen::draw(const std::vector<std::string>& lines) {
  const size_t room = terminal_size().lines;
  const bool is_cut = lines.size() > room;
  const size_t shown = is_cut ? room - 1 : lines.size();
  std::string text = "\x1b[H";
  for (size_t at = 0; at < shown; ++at) {
    // No newline behind the last line, which would scroll.
    text += (at == 0 ? "" : "\r\n") + lines[at] + "\x1b[K";
  }
  if (is_cut) text += fmt::format("{}{} more lines\x1b[K", shown == 0 ? "" : "\r\n", lines.size() - shown);
  return write_all(text + "\x1b[J");
}

/// False: the terminal is gone.
bool Screen::read_keys() {
  std::array<char, 64> keys{};
  const ssize_t count = read(STDIN_FILENO, keys.data(), keys.size());
  if (count <= 0) return count < 0 && errno == EINTR;
  keys_.append(keys.data(), static_cast<size_t>(count));
  return true;
}

bool Screen::wait(double seconds) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>(std::fmod(seconds, 1.0) * 1e9);
  pollfd keyboard{STDIN_FILENO, POLLIN, 0};
  const int ready = ppoll(&keyboard, has_keys_ ? 1 : 0, &time, &mask_);
  if (wants_to_leave != 0) return false;
  if (wants_to_pause != 0) {
    wants_to_pause = 0;
    leave();
    (void)raise(SIGSTOP);
    enter();
  }
  return ready <= 0 || read_keys();
}

}  // namespace gpupool::cli
